"""Errors of many hosts are as many lines as there are different errors."""

from pylaunch.model.cluster import Host, SshOptions
from pylaunch.model.diagnosis.host_errors import MOST_ERRORS, alike_errors
from pylaunch.model.diagnosis.host_hints import folded
from pylaunch.model.hostset import fold

HOSTS = tuple(Host(f"gpu{number:02}", f"10.0.0.{number}", ssh=SshOptions("root")) for number in range(1, 65))


def no_route(host: Host) -> str:
    return f"ssh root@{host.address}: no route (connect to host {host.address} port 22: No route to host)"


def test_the_same_error_with_the_address_of_each_host_is_one() -> None:
    errors = {host.name: [no_route(host)] for host in HOSTS}
    text = "ssh root@10.0.0.[1-64]: no route (connect to host 10.0.0.[1-64] port 22: No route to host)"
    assert alike_errors(HOSTS, errors) == [("gpu[01-64]", text)]


def test_an_error_of_one_host_is_as_it_was() -> None:
    assert alike_errors(HOSTS, {"gpu07": [no_route(HOSTS[6])]}) == [("gpu07", no_route(HOSTS[6]))]


def test_different_errors_stay_apart_also_in_a_number_or_in_the_address_of_another_host() -> None:
    errors = {
        "gpu01": ["port 29500 is held by pid 4121", "cannot reach 10.0.0.3"],
        "gpu02": ["port 29500 is held by pid 4122", "cannot reach 10.0.0.3"],
        "gpu03": ["cannot reach 10.0.0.4", "10.0.0.30 answers"],
    }
    assert alike_errors(HOSTS, errors) == [
        ("gpu01", "port 29500 is held by pid 4121"),
        ("gpu[01-02]", "cannot reach 10.0.0.3"),
        ("gpu02", "port 29500 is held by pid 4122"),
        ("gpu03", "cannot reach 10.0.0.4"),
        ("gpu03", "10.0.0.30 answers"),
    ]


def test_a_host_whose_address_is_its_name() -> None:
    hosts = (Host("n1", "n1"), Host("n2", "n2.example"))
    errors = {"n1": ["ssh n1: name does not resolve"], "n2": ["ssh n2.example: name does not resolve (n2)"]}
    assert alike_errors(hosts, errors) == [
        ("n1", "ssh n1: name does not resolve"), ("n2", "ssh n2.example: name does not resolve (n2)"),
    ]  # fmt: skip
    same = {"n1": ["ssh n1: no answer"], "n3": ["ssh n3: no answer"]}
    assert alike_errors((*hosts, Host("n3", "n3")), same) == [("n[1,3]", "ssh n[1,3]: no answer")]


def test_addresses_that_do_not_fold_do_not_fill_the_line() -> None:
    hosts = tuple(Host(f"n{number}", f"10.{number}.{255 - number}.{number * 7 % 251}") for number in range(1, 41))
    ((names, text),) = alike_errors(hosts, {host.name: [f"ssh {host.address}: no answer"] for host in hosts})
    assert (names, text) == ("n[1-40]", "ssh 10.1.254.7, …: no answer")


def test_of_very_many_different_errors_the_last_line_stands_for_the_others() -> None:
    found = alike_errors(HOSTS, {host.name: [f"error {number * 17}"] for number, host in enumerate(HOSTS)})
    assert len(found) == MOST_ERRORS
    rest = HOSTS[MOST_ERRORS - 1 :]
    assert found[-1] == (fold(host.name for host in rest), f"{len(rest)} more errors")


def test_hints_that_differ_in_the_host_alone_are_one() -> None:
    hints = {f"n{number}": [f"pylaunch trust --limit n{number}"] for number in (1, 2, 3)}

    assert folded(hints) == ("pylaunch trust --limit n[1-3]",)


def test_what_differs_otherwise_stays_apart_and_a_name_within_another_is_left_alone() -> None:
    hints = {"n1": ["ssh root@10.0.0.1", "look at n1, not at n1x or n1.example"], "n2": ["ssh root@10.0.0.2"]}

    assert folded(hints) == ("ssh root@10.0.0.1", "look at n1, not at n1x or n1.example", "ssh root@10.0.0.2")


def test_a_hint_that_names_no_host_is_printed_once() -> None:
    assert folded({"n1": ["--port 29501"], "n2": ["--port 29501"]}) == ("--port 29501",)


def test_of_commands_to_try_by_hand_one_is_shown_for_all_hosts() -> None:
    hints = {f"n{number}": [f"try it by hand: ssh -l root -- 10.0.0.{number}"] for number in range(1, 65)}
    hints["n65"] = ["pylaunch trust --limit n65"]
    assert folded(hints) == (
        "n[1-64]: try it by hand: ssh -l root -- 10.0.0.1", "pylaunch trust --limit n65",
    )  # fmt: skip
    assert folded({"n2": hints["n2"]}) == ("try it by hand: ssh -l root -- 10.0.0.2",)
    behind = {host: [f"the key of the jump host; {texts[0]}"] for host, texts in hints.items() if host != "n65"}
    assert folded(behind) == ("the key of the jump host; n[1-64]: try it by hand: ssh -l root -- 10.0.0.1",)
