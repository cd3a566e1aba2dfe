"""Contract of Slurm with `pylaunch render slurm` and `pylaunch.runtime`: a cluster of three nodes on this machine.

Debian's packages are unpacked, not installed: slurmctld, a slurmd for each node and munge run from a directory of the
test, on ports and a socket of their own. It needs root, because slurmd does.
"""

import contextlib
import json
import os
import platform
import re
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pylaunch.features.render_files.files import Target, TargetOptions, render_files
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import plan_run
from tests.features.render_files.samples import AWKWARD
from tests.ports import free_port
from tests.waiting import wait_until

ENDS_S = 300
PACKAGES = (
    "slurmctld", "slurmd", "slurm-client", "slurm-wlm-basic-plugins", "munge", "libmunge2", "libhwloc15", "libnuma1",
    "liblz4-1",
)  # fmt: skip
CONFIGURATION = """\
ClusterName=contract
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={state}/munge.sock
PluginDir={plugins}
StateSaveLocation={state}/slurmctld
SlurmdSpoolDir={state}/%n
SlurmctldPidFile={state}/slurmctld.pid
SlurmdPidFile={state}/%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
KillWait=2
SlurmdParameters=config_overrides
MessageTimeout=100
BatchStartTimeout=100
SchedulerParameters=batch_sched_delay=0,bf_interval=1,sched_min_interval=0
{nodes}
PartitionName=all Nodes=ALL Default=YES State=UP
"""
REPORT = """
import glob, json, os, sys, time
from dataclasses import asdict
from pylaunch.runtime import place
own = {name: value for name, value in os.environ.items() if name.startswith("SLURM")}
found = {
    "place": asdict(place()), "of slurm": asdict(place(own)), "node": os.environ["SLURMD_NODENAME"],
    "group": [os.environ.get("GROUP_RANK"), os.environ.get("GROUP_WORLD_SIZE")],
    "arguments": sys.argv[1:], "note": os.environ.get("NOTE"), "secret": os.environ.get("HF_TOKEN"),
}
path = f"{os.environ['SLURM_SUBMIT_DIR']}/report.{os.environ['SLURM_PROCID']}"
with open(path + "~", "w") as file:
    json.dump(found, file)
os.rename(path + "~", path)
if "--fail" in sys.argv:
    until = time.monotonic() + 60
    while len(glob.glob(f"{os.environ['SLURM_SUBMIT_DIR']}/report.[0-3]")) < 4 and time.monotonic() < until:
        time.sleep(0.02)
    if os.environ["SLURM_PROCID"] == "1":
        sys.exit(7)
    time.sleep(600)
"""
NODES = ("n1", "n2", "n3")


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """The environment for commands of Slurm; its nodes n1, n2 and n3 are idle."""
    if os.geteuid() != 0:
        pytest.skip("slurmd needs root")
    if shutil.which("apt-get") is None or "bookworm" not in platform.freedesktop_os_release().get(
        "VERSION_CODENAME", ""
    ):
        pytest.skip("the packages of Slurm are those of Debian 12")
    directory = tmp_path_factory.mktemp("slurm")
    unpack(directory)
    state, library = directory / "state", directory / f"usr/lib/{platform.machine()}-linux-gnu"
    for each in ("slurmctld", *NODES):
        (state / each).mkdir(parents=True)
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith("SLURM")},
        "PATH": f"{directory}/usr/bin:{directory}/usr/sbin:{os.environ['PATH']}",
        "LD_LIBRARY_PATH": f"{library}:{library}/slurm-wlm", "SLURM_CONF": f"{state}/slurm.conf",
    }  # fmt: skip
    lines = [
        f"NodeName={name} NodeHostname={platform.node()} NodeAddr=127.0.0.1 Port={free_port()} CPUs=4 RealMemory=500"
        for name in NODES
    ]
    (state / "slurm.conf").write_text(
        CONFIGURATION.format(
            host=platform.node(), port=free_port(), state=state, plugins=library / "slurm-wlm", nodes="\n".join(lines)
        )
    )
    (state / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
    (state / "key").write_bytes(secrets.token_bytes(256))
    (state / "key").chmod(0o400)
    munge = [f"--{name}={state}/{file}" for name, file in
             (("socket", "munge.sock"), ("key-file", "key"), ("log-file", "munge.log"), ("pid-file", "munge.pid"),
              ("seed-file", "seed"))]  # fmt: skip
    stepd = f"{directory}/usr/sbin/slurmstepd-wlm"
    with contextlib.ExitStack() as running:
        running.callback(shutil.rmtree, directory, ignore_errors=True)
        running.enter_context(daemon(("munged", "--force", "--foreground", *munge), state, env))
        wait_until(lambda: (state / "munge.sock").exists(), "munged listens")
        running.enter_context(daemon(("slurmctld-wlm", "-D"), state, env))
        for name in NODES:
            running.enter_context(daemon(("slurmd-wlm", "-D", "-N", name, "-d", stepd), state, env))
        wait_until(lambda: states(env) == ["idle"] * len(NODES), "all nodes are idle", ENDS_S)
        yield env


def unpack(directory: Path) -> None:
    """Unpack Debian's packages into `directory`."""
    (directory / "packages").mkdir()
    download = ("apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", *PACKAGES)
    if subprocess.run(download, cwd=directory / "packages", capture_output=True, timeout=ENDS_S).returncode:
        subprocess.run(("apt-get", "-qq", "update"), check=True, timeout=ENDS_S)
        subprocess.run(download, cwd=directory / "packages", check=True, timeout=ENDS_S)
    for package in (directory / "packages").iterdir():
        subprocess.run(("dpkg", "-x", str(package), str(directory)), check=True, timeout=ENDS_S)


@contextlib.contextmanager
def daemon(argv: tuple[str, ...], state: Path, env: Mapping[str, str]) -> Iterator[None]:
    """Run a daemon in the foreground for this block."""
    program = shutil.which(argv[0], path=env["PATH"])
    assert program is not None
    with (state / "daemons.log").open("ab") as log:
        running = subprocess.Popen((program, *argv[1:]), env=env, stdout=log, stderr=log, start_new_session=True)
        try:
            yield
        finally:
            running.terminate()
            try:
                running.wait(timeout=ENDS_S)
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait()


def states(env: Mapping[str, str]) -> list[str]:
    """Return the states of the nodes; empty while slurmctld does not answer."""
    shown = subprocess.run(
        ("sinfo", "--noheader", "--Node", "--format=%T"), env=env, capture_output=True, text=True, timeout=ENDS_S
    )
    return shown.stdout.split()


def script(directory: Path, devices: tuple[int, ...], framework: Framework, *arguments: str) -> str:
    """Write the program and its script for nodes with so many devices, which this cluster does not have."""
    (directory / "train.py").write_text(REPORT)
    hosts = tuple(
        Host(f"h{number}", "10.0.0.1", devices=tuple(range(count)), python=sys.executable)
        for number, count in enumerate(devices)
    )
    job = JobSpec(
        ("train.py", *arguments), framework, str(directory), secrets=("HF_TOKEN",),
        env={"NOTE": "it's \"$x\"", "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    file = render_files(plan_run(Cluster(hosts), job, "train"), Target.SLURM, TargetOptions()).files[0]
    (directory / file.name).write_text(re.sub(r"#SBATCH --gres=gpu:\d\n", "", file.text))
    return file.name


def submitted(directory: Path, env: Mapping[str, str], *words: str) -> tuple[int, list[dict[str, Any]]]:
    """Submit a script, wait for its end, and return its exit code and the reports of the tasks, in their order."""
    sbatch = subprocess.run(
        ("sbatch", "--parsable", *words), cwd=directory, env=env, capture_output=True, text=True, timeout=ENDS_S
    )
    assert sbatch.returncode == 0, sbatch.stderr
    code = wait_until(lambda: exit_code(sbatch.stdout.strip(), env), "the job has ended", ENDS_S)
    reports = sorted(directory.glob("report.*"), key=lambda path: int(path.suffix[1:]))
    return int(code), [json.loads(path.read_text()) for path in reports]


def exit_code(job: str, env: Mapping[str, str]) -> str:
    """Return the exit code of the batch script of a job whose components have all ended; "" before."""
    shown = subprocess.run(("scontrol", "show", "job", job), env=env, capture_output=True, text=True, timeout=ENDS_S)
    found = re.findall(r"JobState=(\w+)", shown.stdout)
    if not found or not set(found) <= {"COMPLETED", "FAILED"}:
        return ""
    return str(re.findall(r"ExitCode=(\d+)", shown.stdout)[0])


@pytest.mark.parametrize("devices", [(2, 2), (2, 2, 1), (1, 2)])
def test_tasks_are_the_ranks_of_the_plan(devices: tuple[int, ...], tmp_path: Path, slurm: Mapping[str, str]) -> None:
    name = script(tmp_path, devices, Framework.DIRECT, *AWKWARD)
    code, found = submitted(tmp_path, {**slurm, "HF_TOKEN": "secret"}, name)
    assert code == 0, "".join(path.read_text() for path in tmp_path.glob("train-*.out"))
    placed = [(node, local_rank) for node, count in enumerate(devices) for local_rank in range(count)]
    assert len(found) == len(placed)
    for rank, (each, (node, local_rank)) in enumerate(zip(found, placed, strict=True)):
        place = each["place"]
        numbers = (place["rank"], place["world_size"], place["local_rank"], place["local_world_size"])
        assert numbers == (rank, len(placed), local_rank, devices[node])
        assert each["group"] == [str(node), str(len(devices))]
        assert (each["arguments"], each["note"], each["secret"]) == (list(AWKWARD), 'it\'s "$x"', "secret")
        assert {**place, "launcher": "slurm"} == each["of slurm"]
    assert len({each["node"] for each in found}) == len(devices)
    assert found[0]["place"]["address"] == found[0]["node"]


def test_options_of_sbatch_change_the_numbers(tmp_path: Path, slurm: Mapping[str, str]) -> None:
    name = script(tmp_path, (2, 2), Framework.DIRECT)
    code, found = submitted(tmp_path, {**slurm, "HF_TOKEN": "secret"}, "--nodes=3", name)
    assert code == 0
    assert [each["place"]["world_size"] for each in found] == [6] * 6


def test_the_first_task_that_fails_ends_the_others(tmp_path: Path, slurm: Mapping[str, str]) -> None:
    name = script(tmp_path, (2, 2), Framework.DIRECT, "--fail")
    code, found = submitted(tmp_path, {**slurm, "HF_TOKEN": "secret"}, name)
    assert len(found) == 4
    assert code in (7, 128 + signal.SIGTERM)  # The code of srun is the highest of its tasks.


def test_one_task_on_each_node_is_a_world_of_its_nodes(tmp_path: Path, slurm: Mapping[str, str]) -> None:
    (tmp_path / "train.py").write_text(REPORT)
    env = {**slurm, "PYTHONPATH": str(Path(__file__).parents[2])}
    step = ("srun", "--nodes=3", "--ntasks-per-node=1", sys.executable, "train.py")
    subprocess.run(step, cwd=tmp_path, env=env, check=True, capture_output=True, timeout=ENDS_S)
    found = [json.loads((tmp_path / f"report.{task}").read_text())["place"] for task in range(3)]
    assert [(each["rank"], each["world_size"], each["local_rank"]) for each in found] == [
        (0, 3, 0),
        (1, 3, 0),
        (2, 3, 0),
    ]
    assert {each["launcher"] for each in found} == {"slurm"}
