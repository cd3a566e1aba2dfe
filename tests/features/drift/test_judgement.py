import pytest

from pylaunch.features.drift.judgement import Cause, Oddity, Report, Why, compare
from pylaunch.features.drift.view import show
from pylaunch.model.attestation import HostRecord

LIMITS = "/etc/security/limits.d/90-pylaunch.conf"


def hosts(facts: dict[str, object], **odd: dict[str, object]) -> dict[str, HostRecord]:
    """n1 … n3 with the same group of facts, except for what is `odd`."""
    return {name: HostRecord({"packages": {**facts, **odd.get(name, {})}}) for name in ("n1", "n2", "n3")}


def test_equal_hosts_have_no_deviations() -> None:
    assert compare(hosts({"package apt": "2.6"}), {}, {}).oddities == ()


def test_a_deviation_found_only_by_comparison_has_the_cause_cluster() -> None:
    report = compare(hosts({"package apt": "2.6"}, n2={"package apt": "2.7"}), {}, {})
    assert report.oddities == (Oddity("packages", "package apt", "2.6", 2, ("n2",), "2.7", (Why(Cause.CLUSTER),)),)


def test_a_missing_fact_is_reported_as_absent() -> None:
    (oddity,) = compare(hosts({}, n1={"package a": "1"}, n2={"package a": "1"}), {}, {}).oddities
    assert (oddity.hosts, oddity.value) == (("n3",), "absent")


def test_a_difference_from_a_role_has_the_cause_configuration_even_if_all_hosts_agree() -> None:
    found = {name: HostRecord({"configuration": {LIMITS: "ab"}}) for name in ("n1", "n2")}
    difference = {LIMITS: "content differs"}
    (oddity,) = compare(found, {"n1": difference, "n2": difference}, {}).oddities
    assert oddity.hosts == ("n1", "n2")
    assert oddity.why == (Why(Cause.CONFIGURATION, "content differs"),)


def test_files_that_differ_between_hosts_on_purpose_are_no_deviation() -> None:
    found = {name: HostRecord({"configuration": {"/etc/nccl.conf": name}}) for name in ("n1", "n2", "n3")}
    assert compare(found, {}, {}).oddities == ()


def test_a_change_since_the_attestation_has_the_cause_time_and_shows_the_old_value() -> None:
    attested = hosts({"package apt": "2.6"})
    (oddity,) = compare(hosts({"package apt": "2.6"}, n3={"package apt": "2.7"}), {}, attested).oddities
    assert (oddity.hosts, oddity.why) == (("n3",), (Why(Cause.TIME, "was 2.6"),))


def test_the_same_change_on_all_hosts_has_the_cause_time() -> None:
    (oddity,) = compare(hosts({"package apt": "2.7"}), {}, hosts({"package apt": "2.6"})).oddities
    assert (oddity.hosts, oddity.usual_count) == (("n1", "n2", "n3"), 3)


def test_a_file_edited_after_attestation_has_both_explanations() -> None:
    good, bad = HostRecord({"configuration": {LIMITS: "ab"}}), HostRecord({"configuration": {LIMITS: "cd"}})
    (oddity,) = compare({"n1": good, "n2": bad}, {"n2": {LIMITS: "content differs"}}, {"n1": good, "n2": good}).oddities
    assert [why.cause for why in oddity.why] == [Cause.CONFIGURATION, Cause.TIME]


def test_a_tie_has_no_majority_and_both_sides_are_reported() -> None:
    found = {"n1": HostRecord({"system": {"kernel": "6.1"}}), "n2": HostRecord({"system": {"kernel": "6.8"}})}
    first, second = compare(found, {}, {}).oddities
    assert (first.usual, first.value, second.value) == (None, "6.1", "6.8")


def test_a_group_that_could_not_be_read_is_reported_and_never_taken_for_absent() -> None:
    found = hosts({"package apt": "2.6"})
    found["n2"] = HostRecord({"packages": {"unreadable": "no dpkg"}})
    report = compare(found, {}, hosts({"package apt": "2.5"}))
    assert [oddity.hosts for oddity in report.oddities] == [("n1", "n3")]
    assert report.unread == {"n2": ("packages: no dpkg",)}


def test_a_group_that_the_attestation_does_not_know_did_not_change() -> None:
    attested = {name: HostRecord({}) for name in ("n1", "n2", "n3")}
    assert compare(hosts({"package apt": "2.6"}), {}, attested).oddities == ()


def test_differing_units_and_blocks_are_reported_though_no_group_covers_them() -> None:
    (oddity,) = compare(hosts({}), {"n2": {"chrony.service": "is enabled and failed"}}, {}).oddities
    assert (oddity.fact, oddity.usual_count, oddity.hosts) == ("chrony.service", 2, ("n2",))


def test_a_reboot_since_the_attestation_is_reported() -> None:
    attested = {"n1": HostRecord({}, {"boot id": "a", "booted": "monday"})}
    (oddity,) = compare({"n1": HostRecord({}, {"boot id": "b", "booted": "friday"})}, {}, attested).oddities
    assert (oddity.fact, oddity.value, oddity.why) == ("booted", "friday", (Why(Cause.TIME, "was monday"),))


def test_hosts_that_agree_and_lack_what_a_role_wants_are_not_shown_as_different_from_themselves(
    capsys: pytest.CaptureFixture[str],
) -> None:
    missing = Oddity("configuration", "/etc/x.conf", "absent", 3, ("n1", "n2", "n3"), "absent",
                     (Why(Cause.CONFIGURATION, "missing"),))  # fmt: skip
    odd = Oddity("packages", "package apt", "2.6", 2, ("n2",), "2.7", (Why(Cause.CLUSTER),))
    show(Report((missing, odd), {}))
    _, first, second = capsys.readouterr().out.splitlines()
    assert first.split() == ["/etc/x.conf", "all", "agree", "n[1-3]", "absent", "configuration", "(missing)"]
    assert second.split() == ["package", "apt", "2.6", "(2)", "n2", "2.7", "cluster"]
