"""Trial of a container of ranks on this host."""

import os

from pylaunch.agent.probe.registry import reader
from pylaunch.agent.shared import container_engines, programs
from pylaunch.protocol.readings.hosts import ContainerReading

TRIAL_S = 40.0


@reader("containers.engine", TRIAL_S + container_engines.INSPECT_S)
def engine(image: str) -> ContainerReading:
    """Run a program of `image` with the engine that a start uses. It ends at once, and leaves nothing."""
    found = container_engines.engine_of(image)
    reading: ContainerReading = {"engine": found or "", "digest": "", "refused": ""}
    if found is None:
        return reading
    try:
        reading["digest"] = _digest(found, image)
        words = container_engines.command(found, image, [], {}, ["/bin/sh", "-c", "exit 0"])
        tried = programs.ended(words, joined=True, deadline_s=TRIAL_S)
    except (OSError, TimeoutError) as error:
        reading["refused"] = str(error)
        return reading
    if tried.status != 0:
        reading["refused"] = (tried.output.strip().splitlines() or [f"exit status {tried.status}"])[-1]
    return reading


def _digest(found: str, image: str) -> str:
    if not image.startswith("/"):
        return container_engines.image_id(found, image)
    return "a directory" if os.path.isdir(image) else f"{os.stat(image).st_size:,} bytes"
