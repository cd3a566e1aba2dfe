"""Files of a plan for other launchers, which `pylaunch render` writes. Pure.

content          files as values, and what several targets say about a plan
shell            parts of shell scripts
<target>         one module for each target
"""

from collections.abc import Callable
from enum import Enum

from pylaunch.base.dataclass import dataclass, replace
from pylaunch.features.render_files.files.content import FileSet
from pylaunch.features.render_files.files.launchers import accelerate_files, deepspeed_files, torchrun_files
from pylaunch.features.render_files.files.slurm import slurm_files
from pylaunch.model.job import USUAL_PORT, Framework
from pylaunch.model.plan import RunPlan

PORT_REMARK = (
    f"MASTER_PORT is {USUAL_PORT}, torchrun's default, and nothing verifies that it is free on the first node; "
    "--port N sets another"
)


class Target(Enum):
    """Launcher for which files are written."""

    SLURM = "slurm"
    TORCHRUN = "torchrun"
    ACCELERATE = "accelerate"
    DEEPSPEED = "deepspeed"

    @property
    def framework(self) -> Framework | None:
        """Framework that the target implies; None if the script decides."""
        return _FRAMEWORKS.get(self)


_FRAMEWORKS = {
    Target.TORCHRUN: Framework.TORCHRUN,
    Target.ACCELERATE: Framework.ACCELERATE,
    Target.DEEPSPEED: Framework.DEEPSPEED,
}


@dataclass(frozen=True)
class TargetOptions:
    """Options of single targets."""

    sbatch: tuple[str, ...] = ()
    """slurm: further options of sbatch."""


_WRITERS: dict[Target, Callable[[RunPlan, tuple[str, ...]], FileSet]] = {
    Target.TORCHRUN: torchrun_files,
    Target.ACCELERATE: accelerate_files,
    Target.DEEPSPEED: deepspeed_files,
}


def render_files(plan: RunPlan, target: Target, options: TargetOptions) -> FileSet:
    """Return the files of `plan` for `target`, the same for the same arguments.

    Raises UsageError for a plan that the target cannot run.
    """
    if target is Target.SLURM:
        return slurm_files(plan, (), options.sbatch)
    remarks = (PORT_REMARK,) if plan.job.rendezvous_port is None and plan.world_size > 1 else ()
    return _WRITERS[target](_with_port(plan), remarks)


def _with_port(plan: RunPlan) -> RunPlan:
    if plan.job.rendezvous_port is not None:
        return plan
    return replace(plan, job=replace(plan.job, rendezvous_port=USUAL_PORT))
