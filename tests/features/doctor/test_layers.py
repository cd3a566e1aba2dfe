"""The first broken layer of a host follows from the steps that were tried after its connection failed."""

import pytest

from pylaunch.checks.survey import Survey, Wanted
from pylaunch.features.doctor import diagnose
from pylaunch.features.doctor.layers import LayerState, StartLayer, judged, layer_of, unreachable_results
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.diagnosis.finding import Finding, Severity
from pylaunch.probe.ask import Unreachable
from pylaunch.terminal.listing import job_words

RESOLVES = "name: n1 resolves to 10.0.0.1"
ACCEPTS = "tcp: 10.0.0.1 port 22 accepts connections, after 0.3 ms"
KNOWN = "host key: ssh-ed25519 SHA256:aaa, as in known_hosts"


CLUSTER = Cluster(tuple(Host(f"n{number}", f"10.0.0.{number}") for number in (1, 2, 3)))


def failed(*evidence: str) -> Unreachable:
    return Unreachable("ssh n1: failed", "a command", evidence, connection_failed=True)


@pytest.mark.parametrize(
    ("why", "layer"),
    [
        (failed("name: n1 does not resolve here (Name or service not known)"), StartLayer.NAMES),
        (failed(RESOLVES, "tcp: 10.0.0.1 port 22: Connection refused"), StartLayer.PORT),
        (failed("tcp: 10.0.0.1 port 22 does not answer within 4 s: host down, link cut"), StartLayer.PORT),
        (failed(ACCEPTS, "protocol: Error reading SSH protocol banner"), StartLayer.PORT),
        (failed(ACCEPTS, "server: SSH-2.0", "host key: shows ssh-ed25519 SHA256:bbb"), StartLayer.HOST_KEY),
        (failed(ACCEPTS, KNOWN, "login: offered /root/.ssh/id_rsa, not accepted"), StartLayer.LOGIN),
        (failed("route: jump port 22 is behind a jump host or ProxyCommand: not checked further"), StartLayer.LOGIN),
        (Unreachable("ssh n1: its login shell does not run commands"), StartLayer.SHELL),
        (Unreachable("no Python at /usr/bin/python3", "correct it"), StartLayer.PYTHON),
        (Unreachable("the probe failed (exit code 1): SyntaxError"), StartLayer.PYTHON),
    ],
)
def test_the_layer_of_a_host_that_does_not_answer(why: Unreachable, layer: StartLayer) -> None:
    assert layer_of(why) is layer


def test_of_several_hosts_the_earliest_broken_layer_is_reported_alone() -> None:
    unreachable = {
        "n1": failed(ACCEPTS, KNOWN, "login: offered k, not accepted"),
        "n2": refused(2),
        "n3": refused(3),
    }
    (result,) = unreachable_results(Survey(CLUSTER, Wanted(), {}, unreachable))
    assert (result.layer, result.hosts) == (StartLayer.PORT, ("n2", "n3"))
    assert result.evidence[-1] == "n1: cannot be asked either, because of the login"


def refused(number: int) -> Unreachable:
    address = f"10.0.0.{number}"
    return Unreachable(
        f"ssh {address}: no SSH server answers (connect to host {address} port 22: Connection refused)",
        f"start sshd on n{number}, or correct ansible_port",
        (f"tcp: {address} port 22: Connection refused",),
        connection_failed=True,
    )


def test_hosts_with_the_same_error_are_one_line() -> None:
    (result,) = unreachable_results(Survey(CLUSTER, Wanted(), {}, {f"n{each}": refused(each) for each in (1, 2, 3)}))
    assert result.text == (
        "ssh 10.0.0.[1-3]: no SSH server answers (connect to host 10.0.0.[1-3] port 22: Connection refused)"
    )
    assert result.evidence == ("tcp: 10.0.0.[1-3] port 22: Connection refused",)
    assert result.hints == ("start sshd on n[1-3], or correct ansible_port",)


def test_different_errors_of_a_layer_stay_apart() -> None:
    silent = Unreachable("ssh 10.0.0.3: no route", "look at n3", ("tcp: 10.0.0.3 port 22: no route",), True)
    unreachable = {"n1": refused(1), "n2": refused(2), "n3": silent}
    (result,) = unreachable_results(Survey(CLUSTER, Wanted(), {}, unreachable))
    assert result.text == "3 of 3 hosts fail here"
    assert result.evidence == (
        "n[1-2]: ssh 10.0.0.[1-2]: no SSH server answers (connect to host 10.0.0.[1-2] port 22: Connection refused)",
        "n[1-2]: tcp: 10.0.0.[1-2] port 22: Connection refused",
        "n3: ssh 10.0.0.3: no route",
        "n3: tcp: 10.0.0.3 port 22: no route",
    )
    assert result.hints == ("start sshd on n[1-2], or correct ansible_port", "look at n3")


def test_the_reason_of_one_host_is_not_repeated_as_evidence() -> None:
    (result,) = unreachable_results(Survey(CLUSTER, Wanted(), {}, {"n1": failed(RESOLVES, ACCEPTS)}))
    assert (result.text, result.evidence) == ("ssh n1: failed", (RESOLVES, ACCEPTS))


def test_what_could_not_be_measured_never_passes() -> None:
    unread = Finding("time.offset", Severity.UNKNOWN, ("n2",), "no answer within 8 s")
    assert judged(StartLayer.CLOCKS, [unread], "agree").state is LayerState.SKIPPED
    late = Finding("time.offset", Severity.FAIL, ("n1",), "clock is 9 s ahead", "chronyc makestep")
    result = judged(StartLayer.CLOCKS, [unread, late], "agree")
    assert (result.state, result.hosts, result.hints) == (LayerState.BROKEN, ("n1",), ("chronyc makestep",))
    other = Finding("limits.files", Severity.FAIL, ("n1",), "too few files")
    warning = Finding("time.offset", Severity.WARN, ("n1",), "clock is 60 ms ahead")
    result = judged(StartLayer.CLOCKS, [other, warning], "agree")
    assert (result.state, result.evidence) == (LayerState.OK, ("warning: n1: clock is 60 ms ahead",))


def test_the_run_of_doctor_is_shown_as_the_verb() -> None:
    assert job_words(diagnose.COMMAND) == "pylaunch doctor"
