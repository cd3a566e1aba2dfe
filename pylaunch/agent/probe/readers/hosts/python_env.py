"""Environment of the ranks: interpreter and libraries, or a container of an image."""

from __future__ import annotations

import os

from pylaunch.agent.probe.registry import reader
from pylaunch.agent.shared import container_engines, essentials, programs
from pylaunch.agent.shared.installed import MARKER, altered_files, installed_digest
from pylaunch.protocol.readings.hosts import ContainerReading, LibrariesReading

VERSION = "import platform; print(platform.python_implementation(), platform.python_version())"


@reader("python_env.python")
def python(path: str) -> str | None:
    """Return the version of the interpreter at `path`; None without one."""
    if not os.path.lexists(path):
        return None
    ended = programs.ended([path, "-I", "-S", "-c", VERSION], joined=True)
    output = ended.output.strip()
    if ended.status != 0:
        raise ValueError(f"{path} does not run: {output.splitlines()[-1] if output else ended.status}")
    return output


@reader("python_env.libraries")
def libraries(path: str) -> LibrariesReading | None:
    """Return the distributions beside the interpreter at `path`, and one digest of their records. Imports nothing."""
    try:
        digest = installed_digest(essentials.environment_of(path))
        return {"digest": digest, "distributions": essentials.distributions(path)}
    except FileNotFoundError:
        return None


@reader("python_env.contents", 55.0)
def contents(path: str) -> list[list[str]] | None:
    """Return the altered files of the environment of `path` as [distribution, file, how]; reads every file."""
    place = essentials.environment_of(path)
    if not any(os.path.exists(os.path.join(place, name)) for name in (MARKER, "pyvenv.cfg")):
        return None
    return altered_files(place)


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
