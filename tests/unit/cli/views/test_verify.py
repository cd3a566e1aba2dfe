"""Report of `verify` in lines: folded hosts, the reason, and a command."""

from pylaunch.cli.commands.prepare.verify import MOST_LINES, lines, summary
from pylaunch.provision.specifications import SpecificationResult, results

REPORT = """<testsuites><testsuite>
<testcase classname="test_ssh_access" name="test_sshd_has_room[n2]"><properties><property name="host" value="n2"/>
<property name="role" value="ssh_access"/></properties>
<failure message="AssertionError: n2 takes 10&#10;[+1 more line]">verify/test_ssh_access.py:7: in test_sshd_has_room
    assert number &gt; 100, why
E   AssertionError: n2 takes 10
E   and says so
E   assert 10 &gt; 100
E    +  where 10 = int('10')</failure></testcase>
</testsuite></testsuites>"""


def result(host: str | None, outcome: str, message: str = "", *evidence: str) -> SpecificationResult:
    return SpecificationResult(host, "gpu_node", "test_gpu_node.test_packages_are_held", outcome, message, evidence)


def test_a_promise_that_fails_on_several_hosts_is_reported_once_with_the_next_step() -> None:
    found = [result(host, "failed", f"Failed: {host} lacks procps", "more") for host in ("n1", "n2", "n3")]
    assert lines([*found, result("n4", "passed")], "my cluster.ini") == [
        "FAIL  n[1-3]: packages are held  [gpu_node]",
        "      | n[1-3] lacks procps",
        "      | more",
        "      fix: pylaunch provision -i 'my cluster.ini' --roles gpu_node --limit 'n[1-3]'",
    ]


def test_an_error_of_several_hosts_is_one_without_their_addresses() -> None:
    found = [result(f"n{each}", "failed", f"RuntimeError: ssh ml@10.0.0.{each}: Cannot stat /etc/x") for each in (1, 2)]
    assert lines(found, "c.ini")[:2] == ["FAIL  n[1-2]: packages are held  [gpu_node]", "      | Cannot stat /etc/x"]


def test_skipped_promises_are_counted_below_failed_ones() -> None:
    skipped = [result(host, "skipped", f"{host} has no NVIDIA device") for host in ("n1", "n2")]
    shown = lines([*skipped, result("n1", "error", "ssh ended")], "c.ini")
    assert shown[0] == "????  n1: packages are held  [gpu_node]"
    assert shown[-1] == "skip  n[1-2]: 1 promise: n[1-2] has no NVIDIA device  [gpu_node]"


def test_the_report_of_pytest_is_read_with_its_reasons() -> None:
    (found,) = results(REPORT)
    assert (found.host, found.message, found.evidence) == ("n2", "AssertionError: n2 takes 10", ("and says so",))
    assert lines([found], "c.ini")[1:3] == ["      | n2 takes 10", "      | and says so"]


def test_long_reasons_are_bounded() -> None:
    shown = lines([result("n1", "failed", "why", *["line"] * (MOST_LINES + 5))], "c.ini")
    assert shown[-2] == "      | and 5 more lines"


def test_the_summary_counts() -> None:
    found = [result("n1", "passed"), result("n2", "failed"), result("n2", "skipped")]
    assert summary(found, 2, "3 s") == "3 promises on 2 hosts in 3 s: 1 kept, 1 not kept, 1 skipped"
    assert summary([result("n1", "passed")], 1, "1 s") == "1 promise on 1 host in 1 s: all kept"


def test_the_result_of_a_command_is_shown_without_the_address_of_a_python_object() -> None:
    printed = (
        "AssertionError: Unexpected exit code 3 for CommandResult(backend=<testinfra.backend.ssh at 0x7f{}>, "
        "exit_status=3, command=b'systemctl is-active chrony', _stdout=b'inactive', _stderr=b\"it's off\")"
    )
    found = [result(host, "failed", printed.format(host)) for host in ("n1", "n2")]
    reason = "      | Unexpected exit code 3 for systemctl is-active chrony: it's off"
    assert lines(found, "c.ini")[:2] == ["FAIL  n[1-2]: packages are held  [gpu_node]", reason]
