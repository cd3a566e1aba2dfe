"""Name and write the files of pylaunch: whole ones, new ones that replace nothing, private ones."""

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from pylaunch.base.dataclass import dataclass
from pylaunch.errors import UsageError


def state_directory() -> Path:
    """Records of runs: `$XDG_STATE_HOME/pylaunch`."""
    home = os.environ.get("XDG_STATE_HOME")
    return (Path(home) if home else Path.home() / ".local/state") / "pylaunch"


def cache_directory() -> Path:
    """Return the directory of files that can be deleted at any time: `$XDG_CACHE_HOME/pylaunch`."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "pylaunch"


def project_directory(inventory: Path) -> Path:
    """Return the directory of files of one cluster that are no secrets: `.pylaunch` next to its inventory.

    For a host list (`gpu01,gpu02,`) it is in the working directory.
    """
    return inventory.absolute().parent / ".pylaunch"


def project_environment(inventory: Path, name: str | None = None) -> Path:
    """Return the Python environment that is locked for this project: its lock and its manifest.

    That of a `name` has a directory of its own, with the environment before it.
    """
    directory = project_directory(inventory)
    return (directory if name is None else directory / "environments" / name) / "environment"


def project_known_hosts(inventory: Path) -> Path:
    """Return the host keys `pylaunch trust` accepted for this project."""
    return project_directory(inventory) / "known_hosts"


@dataclass(frozen=True)
class JobFiles:
    """Files of the agents that pylaunch starts in a Slurm job which it did not submit."""

    archive: Path
    """The agent, as the input of the step; jobs share it."""

    log: Path
    """Output of the step."""


def job_files(job: str, version: str) -> JobFiles:
    """Return the files of the Slurm job `job`, for the agent `version`."""
    directory = state_directory() / "slurm"
    return JobFiles(directory / f"{version}.pyz", directory / f"{job}.log")


class RunPaths:
    """The files of one run."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.plan = directory / "plan.json"
        """The plan, as decided."""
        self.essentials = directory / "essentials.json"
        """Facts that must be equal on its nodes, as they were prepared; absent if the run was never prepared."""
        self.events = directory / "events.jsonl"
        """Events, appended as they happen, one JSON object a line."""
        self.views = directory / "views.jsonl"
        """Views of ranks that their nodes took before they stopped them, one JSON object a line."""
        self.findings = directory / "findings.jsonl"
        """Findings of the checks that ran beside the start, one JSON object a line; absent without any."""
        self.controller = directory / "controller"
        """Locked by the controller in charge of the run for as long as it lives; holds its process id."""
        self.log = directory / "controller.log"
        """Output of a controller in the background."""
        self.outcome = directory / "outcome.json"
        """Outcome; absent while the run lasts."""
        self.stop_asked = directory / "stop-asked"
        """Exists if a person stopped the run, so that it is not restarted; in the directory of its first attempt."""


def runs_directory() -> Path:
    """One directory per run."""
    return state_directory() / "runs"


_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def run_paths(run_id: str) -> RunPaths:
    """Return the paths of run `run_id`. Raises UsageError for an id that is not a plain file name."""
    if not _RUN_ID.fullmatch(run_id):
        raise UsageError(f"run id: expected letters, digits, '.', '_' and '-', got {run_id!r}")
    return RunPaths(runs_directory() / run_id)


PRIVATE = 0o600


def write_whole(path: Path, content: bytes, mode: int = PRIVATE) -> None:
    """Replace `path` by a file with `content`.

    Raises OSError, as for a full disk; then `path` is as before, and nothing is left beside it.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
            file.write(content)
        aside.replace(path)
    except OSError:
        aside.unlink(missing_ok=True)
        raise


def append(path: Path, content: bytes) -> None:
    """Append `content` to `path`, which is made for its owner alone. Raises OSError."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, PRIVATE), "ab") as file:
        file.write(content)


def make_private(directory: Path, within: Path) -> None:
    """Make `directory`, and those above it up to `within`, for their owner alone: those that are there too.

    Raises OSError, FileExistsError for a `directory` that is there.
    """
    above = [each for each in (within, *within.parents) if not each.exists()]
    for each in reversed(above):
        each.mkdir(mode=0o700, exist_ok=True)
    for level in (each for each in reversed(directory.parents) if each == within or within in each.parents):
        level.mkdir(mode=0o700, exist_ok=True)
        if level.stat().st_mode & 0o077 and level.stat().st_uid == os.getuid():
            level.chmod(0o700)
    directory.mkdir(mode=0o700)


HINT = "name another file: -o FILE"


def refuse_existing(file: Path) -> None:
    """Raise UsageError if `file` exists: nothing is replaced."""
    if file.exists() or file.is_symlink():
        raise UsageError(f"{file} exists already", hint=HINT)


@contextlib.contextmanager
def new_file(file: Path) -> Iterator[BinaryIO]:
    """Open `file` for writing, and remove it if the body fails. Raises UsageError if it exists or cannot be written."""
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with contextlib.ExitStack() as undo:
            undo.callback(file.unlink, missing_ok=True)
            with os.fdopen(descriptor, "wb") as out:
                yield out
            undo.pop_all()
    except FileExistsError:
        raise UsageError(f"{file} exists already", hint=HINT) from None
    except OSError as error:
        raise UsageError(f"{file}: cannot be written: {error.strerror}", hint=HINT) from None


OUTPUT_DIRECTORY = "pylaunch-out"


def output_file(name: str) -> Path:
    """Return the path of `name` in the output directory, which is created. git ignores everything in it.

    Raises UsageError if it cannot be created.
    """
    directory = Path(OUTPUT_DIRECTORY).absolute()
    try:
        directory.mkdir(exist_ok=True)
        ignore = directory / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n")
    except OSError as error:
        raise UsageError(f"{directory}: cannot be written: {error.strerror}", hint=HINT) from None
    return directory / name
