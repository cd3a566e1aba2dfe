"""Write the files of another launcher for the plan of a start. No host is contacted."""

import os
from collections.abc import Iterable
from pathlib import Path

from pylaunch.base.dataclass import dataclass
from pylaunch.errors import UsageError
from pylaunch.features import judge_settings
from pylaunch.features.render_files.files import Target, TargetOptions, render_files
from pylaunch.features.render_files.files.content import FileSet
from pylaunch.model.cluster import Cluster
from pylaunch.model.job import JobSpec
from pylaunch.model.secret import refuse_secrets
from pylaunch.runs.events import Emit
from pylaunch.runs.start import plan_start
from pylaunch.store.new_file import new_file


@dataclass(frozen=True)
class RenderedPlan:
    """Files for a target, and where they were written."""

    target: Target
    content: FileSet
    secrets: tuple[str, ...]
    """Names of the secrets of the job. No file contains a value."""

    directory: Path | None = None
    """None: nothing was written."""


def render_plan(cluster: Cluster, job: JobSpec, target: Target, options: TargetOptions, emit: Emit) -> RenderedPlan:
    """Plan `job` as a start would, and return the files of the plan for `target`.

    Raises UsageError for a plan that the target cannot run, and for a secret on the command line or in a variable,
    because the files would contain it.
    """
    refuse_secrets(job.command, job.env)
    plan = plan_start(cluster, job, judge_settings, emit).plan
    return RenderedPlan(target, render_files(plan, target, options), job.secrets)


def write_files(rendered: RenderedPlan, directory: Path, *, replaces: bool) -> RenderedPlan:
    """Write the files to `directory`, which is made if needed, each for its user alone.

    Raises UsageError if a file exists, unless `replaces`, and if one cannot be written.
    """
    paths = [directory / file.name for file in rendered.content.files]
    existing = [path.name for path in paths if path.exists() or path.is_symlink()]
    if existing and not replaces:
        raise UsageError(
            f"{directory}: {_counted(existing)} already",
            hint="--force replaces them; --output DIR names another directory",
        )
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--output {directory}: cannot be made: {error.strerror}") from None
    for path, file in zip(paths, rendered.content.files, strict=True):
        _write(path, file.text.encode("utf-8", "surrogateescape"), replaces=path.name in existing)
    return RenderedPlan(rendered.target, rendered.content, rendered.secrets, directory)


def _write(path: Path, content: bytes, *, replaces: bool) -> None:
    """Write one file. One that exists is replaced at once, when the new one is complete."""
    aside = path.with_name(f".{path.name}.{os.getpid()}") if replaces else path
    with new_file(aside) as out:
        out.write(content)
    if replaces:
        try:
            aside.replace(path)
        except OSError as error:
            aside.unlink(missing_ok=True)
            raise UsageError(f"{path}: cannot be replaced: {error.strerror}") from None


def _counted(names: Iterable[str]) -> str:
    shown = ", ".join(sorted(names))
    return f"{shown} exist" if "," in shown else f"{shown} exists"
