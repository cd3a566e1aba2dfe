"""Report of `verify` in lines: folded hosts, the reason, and a command."""

from pylaunch.features.verify.command import lines, summary
from pylaunch.features.verify.specifications import SpecificationResult, results

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


def test_skipped_promises_are_counted_below_failed_ones() -> None:
    skipped = [result(host, "skipped", f"{host} has no NVIDIA device") for host in ("n1", "n2")]
    shown = lines([*skipped, result("n1", "error", "ssh ended")], "c.ini")
    assert shown[0] == "????  n1: packages are held  [gpu_node]"
    assert shown[-1] == "skip  n[1-2]: 1 promise: n[1-2] has no NVIDIA device  [gpu_node]"
    assert summary([], 0, "2 s") == "0 promises on 0 hosts in 2 s: 0 kept"


def test_the_report_of_pytest_is_read_with_its_reasons() -> None:
    (found,) = results(REPORT)
    assert (found.host, found.message, found.evidence) == ("n2", "AssertionError: n2 takes 10", ("and says so",))
    assert lines([found], "c.ini")[1:3] == ["      | n2 takes 10", "      | and says so"]
