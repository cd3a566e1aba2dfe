"""The needs of a planned run on its hosts. Pure."""

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
    # What travels with the run is proven by its hash, and what an image has is examined by agents.
    is_there = job.sync is None and job.container is None
    pythons = {node.host.name: job.python or node.host.rank_python for node in plan.nodes}
    return Wanted(
        workdir=job.workdir if is_there else "",
        command=job.command if is_there else (),
        script=(job.script or "") if scripted and is_there else "",
        devices={node.host.name: node.devices for node in plan.nodes if node.devices},
        pythons=pythons if scripted and job.container is None else {},
        files=tuple(files),
        checkpoint_dir=checkpoint_dir,
        temporary_dir=job.env.get("TMPDIR", ""),
        container="" if job.container is None else job.container.image,
        infiniband=infiniband,
        connected=scripted,
        listen_by_name=frozenset(
            node.host.name
            for node in plan.nodes
            if job.framework is Framework.JAX and not node.devices and plan.world_size > len(node.ranks)
        ),
    )
