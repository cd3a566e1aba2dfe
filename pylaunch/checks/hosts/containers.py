"""Engine and image of the container of ranks. Only where a container is wanted."""

from collections.abc import Iterable
from typing import Any

from pylaunch.agent.probe.readers.hosts import python_env as container_readers
from pylaunch.agent.shared.container_engines import engines_for
from pylaunch.checks.check import AtStart, Check
from pylaunch.checks.survey import Survey, Wanted
from pylaunch.model.cluster import Host
from pylaunch.model.diagnosis.finding import Finding, Severity
from pylaunch.model.diagnosis.majority import Rule, odd_ones
from pylaunch.model.text.argv import quoted

_ID = "containers.engine"


def _engine(survey: Survey) -> Iterable[Finding]:
    image = survey.wanted.container
    readings = survey.measured(container_readers.engine)
    brings = f"pylaunch push IMAGE {quoted((image,))}" if image.startswith("/") else "podman load or docker load"
    for host, found in readings.items():
        if not found["engine"]:
            text = f"{' or '.join(engines_for(image))} not found, which runs image {image}"
            yield Finding(_ID, Severity.FAIL, (host,), text, "install one on {hosts}: pylaunch help containers")
        elif found["refused"]:
            text = f"{found['engine']} does not run image {image}: {found['refused']}"
            yield Finding(_ID, Severity.FAIL, (host,), text, f"as that user on {{hosts}}: {brings}")
    digests = {host: found["digest"] for host, found in readings.items() if found["digest"]}
    yield from odd_ones(Rule(_ID, Severity.FAIL, f"image {image}", f"one image for all of them: {brings}"), digests)


def _ask(host: Host, wanted: Wanted) -> dict[str, Any]:
    return container_readers.engine.ask(wanted.container) if wanted.container else {}


CHECKS = (
    Check(
        _ID,
        "an engine runs the image of the ranks, and the image is the same",
        "A node that cannot make the container refuses the start.",
        "with --container: apptainer, enroot, podman or docker runs a shell of the image as our user, and all"
        " hosts have the same id of the image, or the same size of its file",
        Severity.FAIL,
        _ask,
        _engine,
        silence=Severity.FAIL,
        at_start=AtStart.AGENT,
    ),
)
