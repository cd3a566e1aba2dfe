"""Files of a plan for other launchers, which `pylaunch render` writes. Pure.

shell            files as values, and parts of shell scripts
<target>         one module for each target
"""

from enum import Enum

from pylaunch.base.dataclass import replace
from pylaunch.features.render_files.files.shell import FileSet
from pylaunch.features.render_files.files.slurm import slurm_files
from pylaunch.features.render_files.files.torchrun import torchrun_files
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

    @property
    def framework(self) -> Framework | None:
        """Framework that the target implies; None if the script decides."""
        return Framework.TORCHRUN if self is Target.TORCHRUN else None


def render_files(plan: RunPlan, target: Target, sbatch: tuple[str, ...] = ()) -> FileSet:
    """Return the files of `plan` for `target`, the same for the same arguments; `sbatch` are options of sbatch.

    Raises UsageError for a plan that the target cannot run.
    """
    if target is Target.SLURM:
        return slurm_files(plan, (), sbatch)
    remarks = (PORT_REMARK,) if plan.job.rendezvous_port is None and plan.world_size > 1 else ()
    return torchrun_files(_with_port(plan), remarks)


def _with_port(plan: RunPlan) -> RunPlan:
    if plan.job.rendezvous_port is not None:
        return plan
    return replace(plan, job=replace(plan.job, rendezvous_port=USUAL_PORT))
