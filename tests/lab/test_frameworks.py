"""Every framework on two real nodes: its example trains, machines may be unequal, and a failure names its rank."""

import json
import time
from pathlib import Path

import pytest

from lab.lab import Lab
from pylaunch.errors import ExitCode
from pylaunch.transport.process import Completed
from tests.lab.controller import must_be_clean, starting

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTED = ("torchrun", "direct", "jax", "accelerate", "deepspeed")
LOOK = """
import os
env = os.environ
place = (env["RANK"], env["LOCAL_RANK"], env["WORLD_SIZE"], env["CUDA_VISIBLE_DEVICES"])
print("view", *place, __name__, __package__, flush=True)
"""
JAX_EXITS = """
import sys, time
import jax, jax.numpy as jnp
jax.distributed.initialize()
from jax.experimental import multihost_utils
multihost_utils.sync_global_devices("all here")
if jax.process_index() == 1:
    sys.exit(3)
time.sleep(280)
multihost_utils.sync_global_devices("never")
"""
LEAVING = """
import atexit, os, runpy, sys, time
def name(task):
    try:
        return open(f"/proc/self/task/{task}/comm").read()
    except OSError:
        return ""
def threads():
    return sum("gloo" in name(task) for task in os.listdir("/proc/self/task"))
def say():
    until = time.monotonic() + 5  # The kernel lists a thread for a moment after it was joined.
    while threads() and time.monotonic() < until:
        time.sleep(0.01)
    print(f"left behind: {threads()} threads of gloo", flush=True)
atexit.register(say)
runpy.run_path(@@, run_name="__main__")
"""
MEETING = """
import {framework}
{barrier}
from pylaunch import runtime
mine = runtime.init()
print("met", mine.rank, mine.world_size, mine.launcher, flush=True)
for number in range(1, 8):
    runtime.step(number)
barrier()
if runtime.rank() == 1:
    raise FloatingPointError("loss is NaN")
barrier()
"""
BARRIERS = {
    "torch": "from torch.distributed import barrier",
    "jax": "from jax.experimental import multihost_utils\nbarrier = lambda: multihost_utils.sync_global_devices('')",
}


def start(lab: Lab, framework: str, *arguments: str, inventory: Path | None = None) -> Completed:
    where = lab.inventory if inventory is None else inventory
    words = ("start", "-i", str(where), "--framework", framework, *arguments)
    return lab.pylaunch(*words, cwd=lab.inventory.parent, timeout_s=280)


def planned(lab: Lab, framework: str, *arguments: str) -> str:
    """The plan of the start, for which no node is asked, without the options as typed and the id of the run."""
    plan = json.loads(start(lab, framework, "--dry-run", "--json", *arguments).checked().stdout)["plan"]
    del plan["options"]
    return str(plan).replace(plan["nodes"][0]["ranks"][0]["env"]["TORCHELASTIC_RUN_ID"]["value"], "the run")


def script(lab: Lab, name: str, text: str) -> str:
    """A script that lies on both nodes."""
    path = lab.inventory.parent / name
    path.write_text(text)
    return str(path)


def leaving(lab: Lab, example: str) -> str:
    """A script that runs the example, then counts the threads that could abort its rank while Python goes away."""
    return script(lab, f"leaving_{example}", LEAVING.replace("@@", repr(str(EXAMPLES / example))))


@pytest.fixture(scope="module")
def unequal(framework_lab: Lab) -> Path:
    """An inventory with two devices on the first node and one, of another number, on the second."""
    path = framework_lab.inventory.with_name("unequal.ini")
    lines = framework_lab.inventory.read_text().splitlines()
    for name, devices in (("n1", "0,1"), ("n2", "4")):
        at = next(number for number, line in enumerate(lines) if line.startswith(f"{name} "))
        lines[at] += f" devices={devices}"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("framework", SCRIPTED)
def test_every_rank_of_a_module_sees_the_devices_that_the_plan_gives_its_node(
    framework_lab: Lab, unequal: Path, framework: str
) -> None:
    directory = framework_lab.inventory.parent / "modules"
    (directory / "pkg").mkdir(parents=True, exist_ok=True)
    (directory / "pkg/look.py").write_text(LOOK)
    place = ("--workdir" if framework == "torchrun" else "--sync", str(directory))
    run = start(framework_lab, framework, *place, "-m", "pkg.look", inventory=unequal)
    assert run.returncode == ExitCode.DONE, run.stderr
    seen = sorted(line.partition("| ")[2] for line in run.stdout.splitlines() if "view" in line)
    assert seen == [f"view {place} __main__ pkg" for place in ("0 0 3 0,1", "1 1 3 0,1", "2 0 3 4")]


def test_auto_makes_one_world_of_an_accelerate_script_however_it_is_typed(framework_lab: Lab) -> None:
    """As typed, each line is a world on every node, and each of them ends well. All are one plan."""
    script = (str(EXAMPLES / "accelerate_train.py"), "--epochs", "1")
    standalone = ("auto", "--", "torchrun", "--standalone", *script)
    lines = [
        ("accelerate", "--", *script),
        ("auto", "--", *script),
        ("auto", "--", "accelerate", "launch", "--num_processes", "1", *script),
        ("auto", "--", "python", *script),
    ]
    wanted = planned(framework_lab, *standalone)
    assert [line for line in lines if planned(framework_lab, *line) != wanted] == []


def test_a_job_survives_the_death_of_a_rollout_server_and_ends_with_its_trainers(
    framework_lab: Lab, tmp_path: Path
) -> None:
    steps = 'trainer.program=["trainer.py", "{roles.rollout.endpoints}", "160"]'
    sets = ("--set", "rollout.shared=true", "--set", "trainer.shared=true", "--set", steps)
    words = ("--workdir", str(EXAMPLES / "roles"), str(EXAMPLES / "roles/job.toml"), *sets)
    with starting(framework_lab, tmp_path, *words) as job:
        job.says("step 5/160 loss")
        server = framework_lab["n1"].run("pgrep", "-f", "[-]u rollout.py").stdout.split()
        framework_lab["n1"].run("kill", "-9", *server)
        assert job.ends(280) == ExitCode.DONE, job.stderr
        assert "step 160/160 loss" in job.stdout
        assert "was killed by SIGKILL" in job.stderr
        assert job.stderr.count("restart 1 of 3: run ") == 2  # The server, and the trainers that lost it.
        assert job.stderr.count(" ready (http:http/health)") == 3
        assert job.stderr.splitlines()[-1] == "job rollouts done: trainer done"
    must_be_clean(framework_lab)


def test_jax_finds_its_place_without_arguments(framework_lab: Lab) -> None:
    run = start(framework_lab, "jax", "--nproc-per-node", "2", "--", str(EXAMPLES / "jax_train.py"))
    assert run.returncode == ExitCode.DONE, run.stderr
    assert "process 3 of 4 on n2" in run.stdout
    assert "fitted on 4 processes: loss 0.00" in run.stdout
    must_be_clean(framework_lab)


def test_a_jax_process_that_exits_ends_all_instead_of_waiting_for_them(framework_lab: Lab) -> None:
    """Under JAX alone it waits in the shutdown barrier, and its peers for it: 300 s of silence."""
    began = time.monotonic()
    run = start(framework_lab, "jax", "--", script(framework_lab, "jax_exits.py", JAX_EXITS))
    assert time.monotonic() - began < 240
    assert run.returncode == ExitCode.JOB_FAILED
    assert "rank 1 on n2 exited with code 3;" in run.stderr
    must_be_clean(framework_lab)


def test_accelerate_makes_one_world_of_unequal_machines(framework_lab: Lab, unequal: Path) -> None:
    """Its own launcher runs 2 of 3 processes, or two worlds of one machine each."""
    example = leaving(framework_lab, "accelerate_train.py")
    words = ("--env", "ACCELERATE_USE_CPU=true", "--", example, "--epochs", "2")
    run = start(framework_lab, "accelerate", *words, inventory=unequal)
    assert run.returncode == ExitCode.DONE, run.stderr
    assert "rank 2 of 3 on n2: MULTI_CPU, cpu" in run.stdout
    assert "trained on 3 ranks" in run.stdout
    assert run.stdout.count("left behind: 0 threads of gloo") == 3


@pytest.mark.parametrize(
    ("framework", "launch", "per_node"), [("torch", "torchrun", 2), ("torch", "direct", 1), ("jax", "jax", 1)]
)
def test_ranks_meet_through_the_runtime_and_the_one_that_raises_is_named_with_place_and_step_and_not_its_victims(
    framework_lab: Lab, framework: str, launch: str, per_node: int
) -> None:
    meeting = MEETING.format(framework=framework, barrier=BARRIERS[framework])
    path = script(framework_lab, f"meeting_{launch}.py", meeting)
    run = start(framework_lab, launch, "--nproc-per-node", str(per_node), "--", path)
    assert run.returncode == ExitCode.JOB_FAILED
    other = {1: "n2", 2: "n1"}[per_node]
    assert f"n1:0 | met 0 {2 * per_node} pylaunch" in run.stdout
    assert f"{other}:1 | met 1 {2 * per_node} pylaunch" in run.stdout
    line = meeting.splitlines().index('    raise FloatingPointError("loss is NaN")') + 1
    place = f"{Path(path).name}:{line}"
    reported = f"rank 1 on {other} exited with code 1 after step 7: FloatingPointError: loss is NaN ({place});"
    assert reported in run.stderr
    must_be_clean(framework_lab)


def test_deepspeed_trains_with_its_configuration(framework_lab: Lab) -> None:
    config = ("--deepspeed", f"--deepspeed_config={EXAMPLES / 'deepspeed.json'}")
    words = (leaving(framework_lab, "deepspeed_train.py"), *config, "--epochs=1")
    run = start(framework_lab, "deepspeed", "--", *words)
    assert run.returncode == ExitCode.DONE, run.stderr
    assert "rank 1 of 2 on n2: ZeRO 1" in run.stdout
    assert "trained on 2 ranks" in run.stdout
    assert run.stdout.count("left behind: 0 threads of gloo") == 2
    must_be_clean(framework_lab)
