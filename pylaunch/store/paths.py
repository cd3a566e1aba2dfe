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
    """Return the host keys `pylaunch trust` and `pylaunch lab` accepted for this project."""
    return project_directory(inventory) / "known_hosts"


def project_bench_baseline(inventory: Path) -> Path:
    """Return the file of the bandwidths that later measurements of this cluster are compared with."""
    return project_directory(inventory) / "bench-baseline.json"


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


def job_log(job: str) -> Path:
    """Return the output of a controller in the background, of a job of several roles."""
    return state_directory() / "jobs" / f"{job}.log"


@dataclass(frozen=True)
class RunPaths:
    """The files of one run."""

    directory: Path

    @property
    def plan(self) -> Path:
        """The plan, as decided."""
        return self.directory / "plan.json"

    @property
    def attestation(self) -> Path:
        """Facts of its nodes when they were prepared; absent if the run was never prepared."""
        return self.directory / "attestation.json"

    @property
    def events(self) -> Path:
        """Events, appended as they happen, one JSON object a line."""
        return self.directory / "events.jsonl"

    @property
    def views(self) -> Path:
        """Views of ranks that their nodes took before they stopped them, one JSON object a line."""
        return self.directory / "views.jsonl"

    @property
    def findings(self) -> Path:
        """Findings of the checks that ran beside the start, one JSON object a line; absent without any."""
        return self.directory / "findings.jsonl"

    @property
    def bench(self) -> Path:
        """Results of the measurement that the run was a part of; absent unless `pylaunch bench` made the run."""
        return self.directory / "bench.json"

    @property
    def controller(self) -> Path:
        """Locked by the controller in charge of the run for as long as it lives; holds its process id."""
        return self.directory / "controller"

    @property
    def log(self) -> Path:
        """Output of a controller in the background."""
        return self.directory / "controller.log"

    @property
    def outcome(self) -> Path:
        """Outcome; absent while the run lasts."""
        return self.directory / "outcome.json"

    @property
    def stop_asked(self) -> Path:
        """Exists if a person stopped the run, so that it is not restarted; in the directory of its first attempt."""
        return self.directory / "stop-asked"


def runs_directory() -> Path:
    """One directory per run."""
    return state_directory() / "runs"


_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def run_paths(run_id: str) -> RunPaths:
    """Return the paths of run `run_id`. Raises UsageError for an id that is not a plain file name."""
    if not _RUN_ID.fullmatch(run_id):
        raise UsageError(f"run id: expected letters, digits, '.', '_' and '-', got {run_id!r}")
    return RunPaths(runs_directory() / run_id)
