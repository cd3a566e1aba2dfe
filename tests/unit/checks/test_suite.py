"""The list of checks, and the result of their findings."""

import re

import pytest

from pylaunch.checks import suite
from pylaunch.checks.check import Check
from pylaunch.checks.suite import result, select
from pylaunch.checks.survey import Look, Survey, Wanted, wanted_by
from pylaunch.errors import UsageError
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.diagnosis.finding import Finding, Severity
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import plan_run
from pylaunch.probe.answers import Unmeasured
from pylaunch.probe.ask import Unreachable

CLUSTER = Cluster((Host("n1", "10.0.0.1"), Host("n2", "10.0.0.2", devices=(0, 1)), Host("n3", "10.0.0.3")))
ALL = Wanted("/w", ("train.py", "x.yaml"), "train.py", 29500, {"n2": (0, 1)}, {"n1": "/p", "n2": "/p"}, ("f",), "/c")


@pytest.mark.parametrize("check", suite.CHECKS, ids=lambda check: str(check.id))
def test_every_check_has_a_title_an_effect_and_a_reference(check: Check) -> None:
    assert re.fullmatch(r"[a-z_]+(\.[a-z_]+)+", check.id)
    assert check.title
    first = check.title.split()[0]
    assert first[0].islower() or sum(letter.isupper() for letter in first) > 1, "a name, or lower case"
    assert not check.title.endswith(".")
    assert re.fullmatch(r"[A-Z].{30,}\.", check.why, re.DOTALL)
    assert len(check.compares) > 5


def test_ids_are_unique() -> None:
    ids = [check.id for check in suite.CHECKS]
    assert len(set(ids)) == len(ids)


def test_only_and_skip_take_ids_and_subjects() -> None:
    assert {check.id.split(".")[0] for check in select(suite.CHECKS, only=("storage", "code.tree"))} == {
        "storage",
        "code",
    }
    assert "storage.room" not in {check.id for check in select(suite.CHECKS, skip=("storage.room",))}
    assert select(suite.CHECKS, only=("storage",), skip=("storage",)) == ()


@pytest.mark.parametrize(
    ("name", "nearest"), [("storage.rom", "storage.room"), ("room", "storage.room"), ("shm", "storage.shared_memory")]
)
def test_an_unknown_id_is_refused_with_what_may_have_been_meant(name: str, nearest: str) -> None:
    with pytest.raises(UsageError) as refused:
        select(suite.CHECKS, skip=(name,))
    assert nearest in refused.value.evidence[0]


def finding(severity: Severity, *hosts: str, check: str = "storage.room", fix: str = "") -> Finding:
    return Finding(check, severity, hosts, f"a {severity.value}", fix)


def test_equal_findings_fold_and_their_fix_names_all_their_hosts() -> None:
    class Sees:
        id, title, silence = "a.b", "t", Severity.UNKNOWN

        @staticmethod
        def asks(host: Host, wanted: Wanted) -> dict[str, object]:
            return {}

        @staticmethod
        def judge(survey: Survey) -> list[Finding]:
            return [finding(Severity.FAIL, "n1", fix="mend {hosts}"), finding(Severity.FAIL, "n2", fix="mend {hosts}")]

    (found,) = suite.judge(Survey(CLUSTER, Wanted(), {}), [Sees])  # type: ignore[list-item]
    assert (found.hosts, found.fix) == (("n1", "n2"), "mend n[1-2]")


def test_an_unreadable_value_is_never_a_pass_and_is_reported_once() -> None:
    reading = {"host.filesystem#temporary files": Unmeasured("closed")}
    checks = select(suite.CHECKS, only=("storage.writable", "storage.room"))
    (found,) = suite.judge(Survey(CLUSTER, Wanted(), {"n1": Look(reading)}), checks)
    assert (found.severity, found.hosts, found.text) == (Severity.UNKNOWN, ("n1",), "temporary files: closed")


def test_an_unreachable_host_is_reported_once_and_first_and_fails() -> None:
    survey = Survey(CLUSTER, Wanted(), {}, {"n3": Unreachable("no route", "plug it in")})
    found = result(survey, suite.CHECKS, [finding(Severity.WARN, "n1")], 1.0)
    assert [(each.check, each.hosts) for each in found.findings] == [("reach.host", ("n3",)), ("storage.room", ("n1",))]
    assert found.failed


def test_no_report_passes_a_check_on_a_host_that_was_not_looked_at() -> None:
    checks = select(suite.CHECKS, only=("storage.writable", "storage.room", "host.memory"))
    looks = {"n1": Look({"host.filesystem#temporary files": Unmeasured("closed")}), "n2": Look({})}
    survey = Survey(CLUSTER, Wanted(), looks, {"n3": Unreachable("no route")})
    found = result(survey, checks, suite.judge(survey, checks), 1.0)
    assert found.not_looked_at == {
        "storage.writable": ("n1", "n3"), "storage.room": ("n1", "n3"), "host.memory": ("n3",)
    }  # fmt: skip


def test_a_plan_wants_what_its_framework_needs() -> None:
    job = JobSpec(("train.py",), Framework.TORCHRUN, "/w", python="/p")
    wanted = wanted_by(plan_run(CLUSTER, job, "r"))
    assert (wanted.script, wanted.pythons["n1"], wanted.devices) == ("train.py", "/p", {"n2": (0, 1)})
    plain = wanted_by(plan_run(CLUSTER, JobSpec(("hostname",), Framework.COMMAND, "/w"), "r"))
    assert (plain.script, plain.pythons) == ("", {})
