"""Every path pylaunch uses on the controller."""

import os
import re
from pathlib import Path

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
    """Return the Python environment that is locked for this project: its lock, its archive and its manifest.

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
        self.request = directory / "request.json"
        """Options of the start that are no part of the plan; absent if the API started the run."""
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
