"""Files of a plan for another launcher, as values."""

import re

from pylaunch.base.dataclass import dataclass
from pylaunch.features.render_files.files import shell
from pylaunch.model.hostset import fold
from pylaunch.model.plan import NodePlan, RunPlan

_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class RenderedFile:
    """A file to write, with a name that is safe in any directory."""

    name: str
    text: str


@dataclass(frozen=True)
class FileSet:
    """Files for one launcher."""

    files: tuple[RenderedFile, ...]
    commands: tuple[str, ...]
    """Shell lines that use the files, in the directory of the files."""

    remarks: tuple[str, ...] = ()
    """Values that the plan does not have and defaults stand for, one line each. The files contain them, too."""


def file_stem(node: NodePlan) -> str:
    """Return the name of the host as part of a file name, or the node rank if a path cannot have that name."""
    return node.host.name if _SAFE_NAME.fullmatch(node.host.name) else f"_node{node.node_rank}"


def label(plan: RunPlan) -> str:
    """Return the name of the program as a DNS label: lower case, digits and hyphens; "job" for a name without any."""
    name = plan.job.entry[-1].rpartition("." if plan.job.script is None else "/")[2]
    name = name.removesuffix(".py").removesuffix(".sh")
    return shell.label(name)


def title(plan: RunPlan) -> str:
    """Return the program, its ranks and nodes in one line."""
    nodes = "1 node" if len(plan.nodes) == 1 else f"{len(plan.nodes)} nodes"
    ranks = "1 rank" if plan.world_size == 1 else f"{plan.world_size} ranks"
    hosts = fold(node.host.name for node in plan.nodes)
    return f"{' '.join(plan.job.entry)}: {ranks} on {nodes} ({hosts}); written by pylaunch render"


def ssh_remarks(plan: RunPlan) -> tuple[str, ...]:
    """Return the hosts whose user or port of SSH a launcher must know from elsewhere."""
    names = [node.host.name for node in plan.nodes if node.host.ssh.user is not None or node.host.ssh.port is not None]
    if not names or len(plan.nodes) == 1:
        return ()
    return (f"~/.ssh/config must have the user or port of SSH of {fold(names)}, which is not in these files",)


def host_remarks(plan: RunPlan) -> tuple[str, ...]:
    """Return what the inventory does not say about the hosts of `plan`."""
    found: list[str] = []
    bare = [node.host.name for node in plan.nodes if not node.host.devices]
    if bare and plan.job.ranks_per_node is None:
        have = "has" if len(bare) == 1 else "have"
        found.append(f"{fold(bare)} {have} no gpus= or devices= in the inventory: one rank on each, on its CPU")
    unnamed = [node.host.name for node in plan.nodes if node.host.interface is None]
    if len(plan.nodes) > 1 and plan.job.interface is None and unnamed:
        of_some = f" for {fold(unnamed)}" if len(unnamed) < len(plan.nodes) else ""
        found.append(f"No network interface is named{of_some}: the framework chooses one; --interface NAME sets it")
    return tuple(found)
