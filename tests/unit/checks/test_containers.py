"""The engine of containers on each node, judged for the image that a run would use."""

from typing import Any

import pytest

from pylaunch.checks.hosts.containers import CHECKS
from pylaunch.checks.suite import questions_for
from pylaunch.checks.survey import Wanted
from pylaunch.model.cluster import Host
from pylaunch.model.diagnosis.finding import Severity
from tests.unit.checks.surveys import alike, findings

IMAGE = "/images/torch.sqsh"
WANTED = Wanted(container=IMAGE)
SETTINGS = {"kernel.unprivileged_userns_clone": None, "user.max_user_namespaces": "96365"}
HEALTHY: dict[str, Any] = {
    "image": "file", "is_readable": True,
    "version": "bubblewrap 0.8.0", "has_opener": True, "fuse": "", "refused": "", "settings": SETTINGS,
}  # fmt: skip
ON = "with container_engine_enabled=true in the inventory: pylaunch provision --roles container_engine --limit n2"
APPARMOR = "kernel.apparmor_restrict_unprivileged_userns"


def test_hosts_are_asked_only_where_a_container_is_wanted_and_healthy_ones_have_no_finding() -> None:
    assert questions_for(Host("n1", "10.0.0.1"), Wanted(), CHECKS) == {}
    assert questions_for(Host("n1", "10.0.0.1"), WANTED, CHECKS) == {"containers.engine": IMAGE}
    assert findings(CHECKS, alike({"containers.engine": HEALTHY}), WANTED) == []


@pytest.mark.parametrize(
    ("odd", "text", "fix", "role"),
    [
        ({"version": ""}, "bwrap not found, which a container needs", ON, "container_engine"),
        ({"has_opener": False}, "squashfuse not found, which a container needs", ON, "container_engine"),
        ({"fuse": "Permission denied"}, "/dev/fuse cannot be opened, which mounts an image: Permission denied", ON,
         "container_engine"),
        ({"is_readable": False}, f"image {IMAGE} cannot be read by that user", f"on n2: let that user read {IMAGE}",
         ""),
        ({"image": ""}, f"image {IMAGE} does not exist", f"pylaunch push --limit n2 IMAGE {IMAGE}", ""),
        ({"refused": "bwrap: setting up uid map: Permission denied", "settings": {**SETTINGS, APPARMOR: "1"}},
         f"bubblewrap 0.8.0 cannot make a container: bwrap: setting up uid map: Permission denied ({APPARMOR} is 1)",
         f'with container_engine_sysctls={{"{APPARMOR}": "0"}} too, {ON}', "container_engine"),
        ({"refused": "bwrap: no"}, "bubblewrap 0.8.0 cannot make a container: bwrap: no",
         "as that user on n2: unshare --map-root-user --mount bwrap --bind / / true", ""),
    ],
)  # fmt: skip
def test_what_a_host_lacks_fails_with_the_role_that_brings_it(
    odd: dict[str, Any], text: str, fix: str, role: str
) -> None:
    found = alike({"containers.engine": HEALTHY}, n2={"containers.engine": {**HEALTHY, **odd}})
    (finding,) = findings(CHECKS, found, WANTED)
    assert (finding.severity, finding.hosts, finding.text) == (Severity.FAIL, ("n2",), text)
    assert (finding.fix, finding.role) == (fix, role)


def test_a_setting_that_is_closed_is_no_finding_where_the_trial_succeeds_and_a_directory_needs_no_squashfuse() -> None:
    as_root = {**HEALTHY, "image": "directory", "has_opener": False, "settings": {APPARMOR: "1"}}
    assert findings(CHECKS, alike({"containers.engine": as_root}), WANTED) == []
