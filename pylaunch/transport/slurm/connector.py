"""The connector of hosts of a Slurm job: each command is a step of that job."""

from collections.abc import Mapping

from pylaunch.base.dataclass import dataclass
from pylaunch.errors import ClusterNotReadyError
from pylaunch.model.text.argv import Argv
from pylaunch.transport.connector import ConnectionFailure, Connector
from pylaunch.transport.process import Completed
from pylaunch.transport.slurm import srun
from pylaunch.transport.slurm.failures import step_failure


@dataclass(frozen=True)
class SlurmConnector(Connector):
    """The `Connector` of a node of a Slurm job. Slurm starts commands without a login or a shared connection."""

    @property
    def job(self) -> str:
        """Id of the job. Raises ClusterNotReadyError for a host without one."""
        if self.host.slurm_job is None:
            raise ClusterNotReadyError(f"{self.host.name} belongs to no Slurm job, so it is not connected to")
        return self.host.slurm_job

    def argv(self, words: Argv, *, shared: bool = True) -> Argv:
        """Return the srun command that runs `words` as a step of its own."""
        return srun.step(self.job, (self.host.name,), words, gpus=self.host.slurm_gpus)

    def failure(self, ended: Completed) -> ConnectionFailure | None:
        """Explain srun's own failures."""
        return step_failure(self.job, self.host.name, ended.stderr) if ended.returncode == srun.FAILED else None

    def timed_out(self, within_s: float) -> ConnectionFailure:
        """Return the failure to report for a host that sent nothing within `within_s` seconds."""
        return ConnectionFailure(
            f"srun on {self.host.name}: no answer within {within_s:.0f} s",
            f"scontrol show node {self.host.name} shows its state",
        )

    def ansible_variables(self) -> Mapping[str, str]:
        """Raise ClusterNotReadyError: Ansible has no connection through srun."""
        raise ClusterNotReadyError(
            f"{self.host.name} is reached through Slurm job {self.job}, and Ansible cannot use that",
            hint="an inventory with SSH hosts: -i cluster.ini --scheduler none",
        )
