"""The engine of containers on each node, judged for the image that a run would use."""

from typing import Any

import pytest

from pylaunch.checks.hosts.python_env import CONTAINER_CHECKS
from pylaunch.checks.suite import questions_for
from pylaunch.checks.survey import Wanted
from pylaunch.model.cluster import Host
from pylaunch.model.diagnosis.finding import Severity
from tests.unit.checks.surveys import alike, findings

IMAGE = "/images/torch.sif"
WANTED = Wanted(container=IMAGE)
HEALTHY: dict[str, Any] = {"engine": "apptainer", "digest": "5 bytes", "refused": ""}
BRINGS = f"pylaunch push IMAGE {IMAGE}"


def test_hosts_are_asked_only_where_a_container_is_wanted_and_healthy_ones_have_no_finding() -> None:
    assert questions_for(Host("n1", "10.0.0.1"), Wanted(), CONTAINER_CHECKS) == {}
    assert questions_for(Host("n1", "10.0.0.1"), WANTED, CONTAINER_CHECKS) == {"containers.engine": IMAGE}
    assert findings(CONTAINER_CHECKS, alike({"containers.engine": HEALTHY}), WANTED) == []


@pytest.mark.parametrize(
    ("odd", "text", "fix"),
    [
        ({"engine": "", "digest": ""}, f"apptainer or singularity not found, which runs image {IMAGE}",
         "install one on n2: pylaunch help containers"),
        ({"refused": "no namespaces"}, f"apptainer does not run image {IMAGE}: no namespaces",
         f"as that user on n2: {BRINGS}"),
        ({"digest": "7 bytes"}, f"image {IMAGE}: 7 bytes, expected 5 bytes as on n[1,3]",
         f"one image for all of them: {BRINGS}"),
    ],
)  # fmt: skip
def test_a_host_without_the_engine_or_with_another_image_fails(odd: dict[str, Any], text: str, fix: str) -> None:
    found = alike({"containers.engine": HEALTHY}, n2={"containers.engine": {**HEALTHY, **odd}})
    (finding,) = findings(CONTAINER_CHECKS, found, WANTED)
    assert (finding.severity, finding.hosts, finding.text) == (Severity.FAIL, ("n2",), text)
    assert finding.fix == fix
