from typing import Any

import pytest

from pylaunch.errors import ProvisionError
from pylaunch.provision.observed.drift import Change, changes_of, notes
from pylaunch.provision.observed.probe import parse_facts
from pylaunch.provision.state import (
    AbsentLine,
    DesiredBlock,
    DesiredCommunication,
    DesiredEnvironment,
    DesiredFile,
    DesiredFilesystem,
    DesiredLink,
    RoleState,
    parse_state,
    questions,
)
from tests.unit.provision.host import EVERYTHING, answered, as_decided, as_wanted, converged, unit_as

Found = dict[str, dict[str, Any]]

MARKER = "# {mark} pylaunch: the cluster"
NO_TIME = EVERYTHING & ~(1 << 25)
NO_RESOURCE = EVERYTHING & ~(1 << 24)

ROLE = RoleState(
    "role",
    packages=("chrony",),
    files=(DesiredFile("/etc/a", "0644", "text\n"),),
    blocks=(DesiredBlock("/etc/hosts", MARKER, "10.0.0.1 n1\n10.0.0.1 @hostname@\n"),),
    absent_lines=(AbsentLine("/etc/hosts", r"^127\.0\.1\.1"),),
    sysctls={"net.core.somaxconn": "8192"},
    limits={"memlock": "unlimited", "stack": "8192"},
    filesystems=(DesiredFilesystem("/dev/shm", 256),),
    services=("chrony.service",),
    absent_services=("ntp.service",),
    environments=(DesiredEnvironment("/opt/pylaunch/envs/1", "1"),),
    links=(DesiredLink("/opt/pylaunch/current", "envs/1"),),
    communications=(DesiredCommunication(("/etc/nccl.conf",), ("10.0.0.2",), "", "auto", (), {}, False),),
    absent_paths=("/etc/old",),
    modes={"/dev/fuse": "0666"},
    reports=("/usr/local/lib/pylaunch/firewall",),
)
BLOCK: Found = {"blocks": {"/etc/hosts": "10.0.0.1 n1\n10.0.0.1 n1"}}


def test_a_host_in_its_desired_state_has_no_change() -> None:
    assert changes_of([ROLE], converged([ROLE], BLOCK)) == ()


@pytest.mark.parametrize(
    ("found", "subject", "difference"),
    [
        ({"packages": {"chrony": None}}, "package chrony", "not installed"),
        ({"files": {"/etc/a": None}}, "/etc/a", "missing"),
        ({"files": {"/etc/a": as_wanted("other\n", "0644")}}, "/etc/a", "content differs"),
        ({"files": {"/etc/a": as_wanted("text\n", "0600")}}, "/etc/a", "mode is 0600, not 0644"),
        (
            {"files": {"/etc/a": {**as_wanted("text\n", "0644"), "owner": "alice"}}},
            "/etc/a",
            "belongs to alice:root, not root:root",
        ),
        ({"blocks": {"/etc/hosts": None}}, "/etc/hosts", "our block is missing"),
        ({"blocks": {"/etc/hosts": "10.0.0.9 n1"}}, "/etc/hosts", "our block differs"),
        ({"lines": {"/etc/hosts": ["127.0.1.1 n1"]}}, "/etc/hosts", "has the line '127.0.1.1 n1'"),
        (
            {"sysctls": {"net.core.somaxconn": {"value": "128", "read_only": False}}},
            "net.core.somaxconn",
            "is 128, not 8192",
        ),
        (
            {"limits": {"memlock": {"soft": "64", "hard": "unlimited"}}},
            "limit memlock",
            "a rank gets 64, not unlimited",
        ),
        (
            {"limits": {"stack": {"soft": "unlimited", "hard": "unlimited"}}},
            "limit stack",
            "a rank gets unlimited, not 8192",
        ),
        ({"filesystems": {"/dev/shm": 64}}, "/dev/shm", "has 64 MiB, needs 256"),
        ({"services": {"chrony.service": None}}, "chrony.service", "no such unit"),
        ({"services": {"chrony.service": unit_as("enabled", "failed")}}, "chrony.service", "is enabled and failed"),
        (
            {"services": {"ntp.service": unit_as("enabled", "active")}},
            "ntp.service",
            "is enabled and active, and must not be",
        ),
        ({"environments": {"/opt/pylaunch/envs/1": None}}, "/opt/pylaunch/envs/1", "not installed"),
        (
            {"environments": {"/opt/pylaunch/envs/1": {"recorded": "d", "digest": "e", "runs": True}}},
            "/opt/pylaunch/envs/1",
            "changed since it was installed",
        ),
        (
            {"environments": {"/opt/pylaunch/envs/1": {"recorded": "d", "digest": "d", "runs": False}}},
            "/opt/pylaunch/envs/1",
            "its interpreter is gone",
        ),
        ({"links": {"/opt/pylaunch/current": "envs/0"}}, "/opt/pylaunch/current", "points at envs/0, not envs/1"),
        ({"files": {"/etc/nccl.conf": None}}, "/etc/nccl.conf", "missing (profile ethernet over eth0)"),
        (
            {"files": {"/etc/nccl.conf": as_wanted("other", "0644")}},
            "/etc/nccl.conf",
            "content differs (profile ethernet over eth0)",
        ),
        (
            {"communications": {"/etc/nccl.conf": as_decided(["/etc/nccl.conf"], foreign=True)}},
            "/etc/nccl.conf",
            "written by somebody else; it will be kept as /etc/nccl.conf.before-pylaunch (profile ethernet over eth0)",
        ),
        (
            {"communications": {"/etc/nccl.conf": {"unmeasured": "set interface="}}},
            "communication",
            "cannot be decided: set interface=",
        ),
        ({"exists": {"/etc/old": True}}, "/etc/old", "is there, and must not be"),
        ({"modes": {"/dev/fuse": None}}, "/dev/fuse", "missing"),
        ({"modes": {"/dev/fuse": "0600"}}, "/dev/fuse", "mode is 0600, not 0666"),
        ({"reports": {"/usr/local/lib/pylaunch/firewall": None}}, "role", "not in force"),
        ({"reports": {"/usr/local/lib/pylaunch/firewall": ["the rules are gone"]}}, "role", "the rules are gone"),
    ],
)  # fmt: skip
def test_one_difference_is_one_change(found: dict[str, Any], subject: str, difference: str) -> None:
    assert changes_of([ROLE], converged([ROLE], {**BLOCK, **found})) == (Change("role", subject, difference),)


@pytest.mark.parametrize(
    ("subject", "asked"),
    [
        ("packages", "chrony"),
        ("files", "/etc/a"),
        ("blocks", "/etc/hosts"),
        ("lines", "/etc/hosts"),
        ("sysctls", "net.core.somaxconn"),
        ("limits", "memlock"),
        ("filesystems", "/dev/shm"),
        ("services", "chrony.service"),
        ("environments", "/opt/pylaunch/envs/1"),
        ("links", "/opt/pylaunch/current"),
        ("exists", "/etc/old"),
        ("reports", "/usr/local/lib/pylaunch/firewall"),
    ],
)
def test_an_unreadable_fact_never_counts_as_converged(subject: str, asked: str) -> None:
    found: Found = {**BLOCK, subject: {asked: {"unmeasured": "Permission denied"}}}
    assert {change.difference for change in changes_of([ROLE], converged([ROLE], found))} == {
        "cannot be read: Permission denied"
    }


def test_a_value_that_needs_a_password_gets_a_hint() -> None:
    found: Found = {
        **BLOCK,
        "reports": {"/usr/local/lib/pylaunch/firewall": {"unmeasured": "sudo: a password is required"}},
    }
    (change,) = changes_of([ROLE], converged([ROLE], found))
    assert change.difference == "cannot be read: sudo: a password is required; ask for it with --ask-become-pass (-K)"


def test_a_unit_that_systemd_skipped_is_reported_with_the_reason() -> None:
    found: Found = {**BLOCK, "services": {"chrony.service": unit_as("enabled", "inactive", condition="no")}}
    (change,) = changes_of([ROLE], converged([ROLE], found))
    assert "systemd skipped it" in change.difference


def test_a_file_for_programs_that_are_absent_is_not_wanted() -> None:
    role = RoleState("role", files=(DesiredFile("/etc/cloud/x", "0644", "", only_where="/etc/cloud"),))
    found: Found = {"files": {"/etc/cloud/x": None}}
    assert changes_of([role], converged([role], {**found, "exists": {"/etc/cloud": False}})) == ()
    assert changes_of([role], converged([role], found)) == (Change("role", "/etc/cloud/x", "missing"),)


def test_a_kernel_setting_that_the_host_cannot_have_is_noted_and_is_no_change() -> None:
    for answer, text in (
        (None, "not in this kernel or container: net.core.somaxconn"),
        ({"value": "128", "read_only": True}, "net.core.somaxconn stays 128, wanted 8192: read-only here"),
    ):
        found: Found = {**BLOCK, "sysctls": {"net.core.somaxconn": answer}}
        facts = converged([ROLE], found)
        assert changes_of([ROLE], facts) == ()
        assert [note.text for note in notes([ROLE], facts)] == [text]


def test_a_limit_above_what_the_container_allows_is_noted_and_is_no_change() -> None:
    found: Found = {**BLOCK, "limits": {"memlock": {"soft": "64", "hard": "64"}}}
    facts = converged([ROLE], found, capabilities=NO_RESOURCE)
    assert changes_of([ROLE], facts) == ()
    assert "the container allows no more" in notes([ROLE], facts)[0].text
    assert changes_of([ROLE], converged([ROLE], found)) != ()


def test_a_hard_limit_that_is_no_number_is_no_reason_for_another_one() -> None:
    found: Found = {**BLOCK, "limits": {"memlock": {"soft": "64", "hard": "much"}}}
    facts = converged([ROLE], found, capabilities=NO_RESOURCE)
    assert changes_of([ROLE], facts) != ()
    assert notes([ROLE], facts) == ()


def test_a_host_that_may_not_set_its_clock_gets_a_note() -> None:
    dropin = DesiredFile("/etc/d", "0644", "", only_without_capability="CAP_SYS_TIME")
    role = RoleState("time_sync", files=(dropin,))
    missing: Found = {"files": {"/etc/d": None}}
    assert (
        notes([role], converged([role], capabilities=NO_TIME))[0].text == "clock not disciplined here (no CAP_SYS_TIME)"
    )
    assert changes_of([role], converged([role], missing, capabilities=NO_TIME)) == (
        Change("time_sync", "/etc/d", "missing"),
    )
    assert notes([role], converged([role], missing)) == ()
    assert changes_of([role], converged([role], missing)) == ()


ALTERED = [["six-1.17.0", "/opt/pylaunch/envs/1/lib/python3.11/site-packages/six.py", "edited"]]


def test_an_edited_file_of_the_environment_is_named_where_every_file_was_looked_at() -> None:
    asked = questions([ROLE], deep=True)
    missing = {subject: [None for _ in each] for subject, each in asked.items()}
    environment: dict[str, list[Any]] = {
        "environments": [{"recorded": "d", "digest": "d", "runs": True}],
        "altered": [ALTERED],
    }
    facts = parse_facts(asked, answered({**missing, **environment}))
    (change,) = (each for each in changes_of([ROLE], facts) if each.subject.startswith("/opt/pylaunch/envs"))
    assert change == Change("role", ALTERED[0][1], "edited (six-1.17.0)")


def test_rendered_data_becomes_typed_entries() -> None:
    state = parse_state(
        "role",
        {
            "files": [{"path": "/a", "mode": "0644", "content": "x"}],
            "filesystems": [{"path": "/dev/shm", "minimum_mib": "256"}],
            "sysctls": {"net.ipv4.tcp_rmem": "4096\t87380  6291456"},
        },
    )
    assert state.files == (DesiredFile("/a", "0644", "x"),)
    assert state.filesystems == (DesiredFilesystem("/dev/shm", 256),)
    assert state.sysctls == {"net.ipv4.tcp_rmem": "4096 87380 6291456"}


def test_a_misspelt_key_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ProvisionError, match="role_desired: unknown key 'file'") as caught:
        parse_state("role", {"file": []})
    assert caught.value.hint is not None
    assert "files" in caught.value.hint


def test_an_entry_that_lacks_a_field_names_it() -> None:
    with pytest.raises(ProvisionError, match=r"role_desired: files: .*'content'"):
        parse_state("role", {"files": [{"path": "/a", "mode": "0644"}]})
