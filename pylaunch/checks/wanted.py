"""The needs of a planned run on its hosts. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pylaunch.checks.survey import Wanted
from pylaunch.model.job import Framework
from pylaunch.model.plan import RunPlan


def wanted_by(
    plan: RunPlan, *, files: Sequence[str] = (), checkpoint_dir: str = "", infiniband: bool = False
) -> Wanted:
    """Return the needs of a run that are known before its first rank exists."""
    job = plan.job
    scripted = job.framework is not Framework.COMMAND
    return Wanted(
        workdir="" if job.sync is not None else job.workdir,  # What travels with the run is proven by its hash.
        command=() if job.sync is not None else job.command,
        script=(job.script or "") if scripted and job.sync is None else "",
        devices={node.host.name: node.devices for node in plan.nodes if node.devices},
        pythons={node.host.name: job.python or node.host.rank_python for node in plan.nodes} if scripted else {},
        files=tuple(files),
        checkpoint_dir=checkpoint_dir,
        temporary_dir=job.env.get("TMPDIR", ""),
        infiniband=infiniband,
        connected=scripted,
        listen_by_name=frozenset(
            node.host.name
            for node in plan.nodes
            if job.framework is Framework.JAX and not node.devices and plan.world_size > len(node.ranks)
        ),
    )
