"""Programs, device and namespaces for ranks in a container, and its image. Only where a container is wanted."""

from collections.abc import Iterable, Iterator
from typing import Any

from pylaunch.agent.probe.readers.hosts import containers as container_readers
from pylaunch.agent.shared.programs import ENGINE, OPENER
from pylaunch.checks.check import AtStart, Check
from pylaunch.checks.survey import Survey, Wanted
from pylaunch.model.cluster import Host
from pylaunch.model.diagnosis.finding import Finding, Severity
from pylaunch.model.text.argv import quoted
from pylaunch.protocol.readings.hosts import ContainerReading

_ID = "containers.engine"
_ROLE = "container_engine"
_PROVISION = f"pylaunch provision --roles {_ROLE} --limit {{hosts}}"
_FIX = f"with container_engine_enabled=true in the inventory: {_PROVISION}"

CLOSED = {
    "kernel.apparmor_restrict_unprivileged_userns": ("1", "0"),
    "kernel.unprivileged_userns_clone": ("0", "1"),
    "user.max_user_namespaces": ("0", "15000"),
}
"""Kernel setting → the value that closes user namespaces to users, and one that opens them."""


def _engine(survey: Survey) -> Iterable[Finding]:
    image = survey.wanted.container
    for host, found in survey.measured(container_readers.engine).items():
        if not found["image"]:
            fix = f"pylaunch push --limit {{hosts}} IMAGE {quoted((image,))}"
            yield Finding(_ID, Severity.FAIL, (host,), f"image {image} does not exist", fix)
        elif not found["is_readable"]:
            fix = f"on {{hosts}}: let that user read {quoted((image,))}"
            yield Finding(_ID, Severity.FAIL, (host,), f"image {image} cannot be read by that user", fix)
        for text, fix, role in _faults(found):
            yield Finding(_ID, Severity.FAIL, (host,), text, fix, role)


def _faults(found: ContainerReading) -> Iterator[tuple[str, str, str]]:
    """Yield text, fix and role of each fault of a host."""
    is_file = found["image"] == "file"
    lacking = [] if found["version"] else [ENGINE]
    lacking += [OPENER] if is_file and not found["has_opener"] else []
    if lacking:
        yield f"{' and '.join(lacking)} not found, which a container needs", _FIX, _ROLE
    if found["fuse"]:
        yield f"{container_readers.DEVICE} cannot be opened, which mounts an image: {found['fuse']}", _FIX, _ROLE
    if found["refused"]:
        text = f"{found['version']} cannot make a container: {found['refused']}"
        keys = [key for key, (closed, _) in CLOSED.items() if found["settings"].get(key) == closed]
        if keys:
            values = ", ".join(f'"{key}": "{CLOSED[key][1]}"' for key in keys)
            text += f" ({', '.join(f'{key} is {CLOSED[key][0]}' for key in keys)})"
            yield text, f"with container_engine_sysctls={{{values}}} too, {_FIX}", _ROLE
        else:
            words = "unshare --map-root-user --mount " if is_file else ""
            yield text, f"as that user on {{hosts}}: {words}bwrap --bind / / true", ""


def _ask(host: Host, wanted: Wanted) -> dict[str, Any]:
    return container_readers.engine.ask(wanted.container) if wanted.container else {}


CHECKS = (
    Check(
        _ID,
        "a container of ranks can be made",
        "A node that cannot make the container refuses the start.",
        "with --container: the image exists; bubblewrap makes a container of / for our user; squashfuse and"
        " /dev/fuse if the image is a file",
        Severity.FAIL,
        _ask,
        _engine,
        silence=Severity.FAIL,
        at_start=AtStart.AGENT,
    ),
)
