"""k8s: a JobSet of JobSet's API (jobset.x-k8s.io/v1alpha2), a pod for each node of the plan.

The headless service of a JobSet gives pods host names, and the Job's completion index is the node rank within a group
of nodes with as many ranks. Hosts, addresses, interfaces and device indexes of the inventory do not apply.
"""

import re
from itertools import groupby

import yaml

from pylaunch.base.dataclass import replace
from pylaunch.features.render_files.files.content import FileSet, RenderedFile, host_remarks, label, title
from pylaunch.model.job import Framework
from pylaunch.model.plan import NodeCommand, NodePlan, RunPlan
from pylaunch.render import render, shell
from pylaunch.render.shell import comments, rank_argv

OF_HOSTS = (
    "CUDA_VISIBLE_DEVICES", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "JAX_COORDINATOR_ADDRESS",
    "OMPI_MCA_orte_hnp_uri", "MASTER_ADDR",
)  # fmt: skip
"""Variables of the plan that name an address, a device or an interface of a host."""

INDEX = "JOB_COMPLETION_INDEX"
"""Set by Kubernetes in the pods of an indexed Job."""

GPU = "nvidia.com/gpu"
SERVED = "The image must contain the program, its packages and bash"
_EXPANDED = re.compile(r"\$(?=[$(])")

Group = list[tuple[NodePlan, NodeCommand]]
"""Consecutive nodes with as many ranks and devices."""


def files(plan: RunPlan, remarks: tuple[str, ...], image: str, workdir: str | None) -> FileSet:
    """Return the manifest. `image` contains the program; `workdir` is its directory there, None for the image's own."""
    name = label(plan)
    groups = [
        list(nodes) for _, nodes in groupby(render(plan), key=lambda each: (len(each[0].ranks), len(each[0].devices)))
    ]
    address = f"{name}-{_group_name(0)}-0-0.{name}"
    manifest = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name},
        "spec": {
            "network": {"enableDNSHostnames": True},
            "failurePolicy": {"maxRestarts": plan.job.max_restarts},
            "replicatedJobs": [
                {
                    "name": _group_name(number),
                    "replicas": 1,
                    "template": {"spec": _job(group, _container(plan, group, address, image, workdir))},
                }
                for number, group in enumerate(groups)
            ],
        },
    }
    notes = (*remarks, *_notes(plan, name), *host_remarks(replace(plan, job=replace(plan.job, interface=""))))
    heading = (title(plan), f"The cluster needs the JobSet controller: kubectl apply -f {name}.yaml", *notes)
    text = "\n".join([*comments(heading), yaml.dump(manifest, Dumper=_Dumper, sort_keys=False, width=1000)])
    return FileSet((RenderedFile(f"{name}.yaml", text),), (f"kubectl apply -f {name}.yaml",), notes)


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as a block."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)


def _notes(plan: RunPlan, name: str) -> tuple[str, ...]:
    notes = [SERVED]
    if plan.job.secrets:
        values = " ".join(f'--from-literal={each}="${each}"' for each in plan.job.secrets)
        notes.append(f"Create the Secret first: kubectl create secret generic {name}-secrets {values}")
    return tuple(notes)


def _group_name(number: int) -> str:
    return f"nodes{number}" if number else "nodes"


def _job(group: Group, container: dict[str, object]) -> dict[str, object]:
    """Return an indexed Job with a pod for each node of `group`. Nothing in it restarts alone."""
    return {
        "parallelism": len(group),
        "completions": len(group),
        "completionMode": "Indexed",
        "backoffLimit": 0,
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "containers": [container],
                "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}],
            }
        },
    }


def _container(plan: RunPlan, group: Group, address: str, image: str, workdir: str | None) -> dict[str, object]:
    """Return the container of each pod of `group`. Data loaders and NCCL need more shared memory than the default."""
    node = group[0][0]
    env = {**_variables(plan, group), "MASTER_ADDR": address, "MASTER_PORT": plan.port}
    secrets = [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": f"{label(plan)}-secrets", "key": name}}}
        for name in plan.job.secrets
    ]
    container: dict[str, object] = {
        "name": "ranks",
        "image": image,
        "command": ["bash", "-c"],
        "args": [_literal("\n".join([shell.STRICT, *_start(plan, node)]) + "\n")],
    }
    if workdir is not None:
        container["workingDir"] = workdir
    container["env"] = [*({"name": name, "value": _literal(value)} for name, value in env.items()), *secrets]
    if node.devices:
        container["resources"] = {"limits": {GPU: str(len(node.devices))}}
    container["volumeMounts"] = [{"name": "shm", "mountPath": "/dev/shm"}]
    return container


def _variables(plan: RunPlan, group: Group) -> dict[str, str]:
    variables = shell.shared_variables(plan, group[0][1])
    return {name: value for name, value in variables.items() if name in plan.job.env or name not in OF_HOSTS}


def _literal(text: str) -> str:
    """Return `text` so that Kubernetes, which expands $(NAME) in arguments and values, leaves it as it is."""
    return _EXPANDED.sub("$$", text)


def _sum(number: int, variable: str) -> str:
    return f"$(({number} + {variable}))" if number else f"${variable}"


def _start(plan: RunPlan, node: NodePlan) -> list[str]:
    """Return the lines that start the ranks of a pod; `node` is the first of its group."""
    python = plan.job.python or "python"
    if plan.job.framework not in (Framework.JAX, Framework.COMMAND):
        words = shell.wrapped(
            (python, "-m", "torch.distributed.run", f"--nnodes={len(plan.nodes)}"),
            (f"--nproc-per-node={len(node.ranks)}",),
            plan.job.command,
        )
        place = f'--node-rank="{_sum(node.node_rank, INDEX)}"'
        meeting = '--master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT"'
        return ["exec " + words[0], f"  {place} {meeting} \\", *words[1:]]
    count = len(node.ranks)
    exports = [
        f"export RANK=$(({node.ranks[0].rank} + {count} * {INDEX} + LOCAL_RANK)) WORLD_SIZE={plan.world_size}",
        f"export LOCAL_WORLD_SIZE={count}",
        f'export GROUP_RANK="{_sum(node.node_rank, INDEX)}" GROUP_WORLD_SIZE={len(plan.nodes)}',
    ]
    if plan.job.framework is Framework.JAX:
        exports += [
            'export JAX_COORDINATOR_ADDRESS="$MASTER_ADDR:$MASTER_PORT"',
            'export OMPI_MCA_orte_hnp_uri="0.0;tcp://$MASTER_ADDR:$MASTER_PORT"',
            'export OMPI_COMM_WORLD_SIZE="$WORLD_SIZE" OMPI_COMM_WORLD_RANK="$RANK"',
            'export OMPI_COMM_WORLD_LOCAL_SIZE="$LOCAL_WORLD_SIZE" OMPI_COMM_WORLD_LOCAL_RANK="$LOCAL_RANK"',
        ]
    return shell.all_ranks(count, exports, rank_argv(plan, python))
