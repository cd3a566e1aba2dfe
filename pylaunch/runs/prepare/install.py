"""Install the agent on hosts that do not have it, through Ansible: one task per host.

Nodes of a Slurm job get it from the step that starts its daemon, so that one without it has no daemon.
"""

import base64
import threading
from collections.abc import Mapping, Sequence

from pylaunch.errors import ProvisionError
from pylaunch.model.plan import RunPlan
from pylaunch.runs.connect.node_script import STARTS_S
from pylaunch.runs.prepare.archive import AgentArchive
from pylaunch.runs.prepare.session import Install
from pylaunch.store.content import playbook
from pylaunch.transport.runner import PlaybookRun, run_playbook


def installer(plan: RunPlan, archive: AgentArchive) -> Install:
    """Return the function that installs `archive` on hosts of `plan`."""

    def install(hosts: Sequence[str], unwanted: threading.Event) -> Mapping[str, str]:
        jobs = {name: job for name in hosts if (job := plan.cluster[name].slurm_job) is not None}
        if jobs:
            return {
                name: f"the agent of Slurm job {job} did not start within {STARTS_S} s" for name, job in jobs.items()
            }
        roots = {name: plan.cluster[name].node_root for name in hosts}
        run = PlaybookRun(
            playbook("prepare"),
            plan.cluster.only(hosts),
            extra_vars={
                "pylaunch_agent_archive": base64.b64encode(archive.data).decode(),
                "pylaunch_agent_version": archive.version,
                "pylaunch_agent_roots": roots,
                "pylaunch_agent_pythons": {name: plan.cluster[name].agent_python for name in hosts},
            },
        )
        try:
            result = run_playbook(run, unwanted=unwanted)
        except ProvisionError as error:
            reason = "; ".join((error.message, *error.evidence))
            return dict.fromkeys(hosts, f"the agent could not be installed: {reason}")
        return {
            each.host: f"the agent could not be installed in {roots[each.host]}, by way of /tmp: {each.message}"
            for each in result.failures
        }

    return install
