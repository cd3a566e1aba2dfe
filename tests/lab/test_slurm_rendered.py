"""Slurm starts the tasks of a script of `pylaunch render slurm` as the ranks of its plan."""

import json
import re
import sys
from typing import Any

from lab.lab import Lab
from pylaunch.features.render_files.scripts import slurm_script
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import plan_run
from tests.features.render_files.samples import AWKWARD
from tests.lab.slurm_jobs import PROJECT, jobs
from tests.waiting import wait_until

DIRECTORY = "/tmp/rendered"
REPORT = """
import json, os, sys
from dataclasses import asdict
from pylaunch.runtime import place
found = {
    "place": asdict(place()), "node": os.environ["SLURMD_NODENAME"],
    "group": [os.environ.get("GROUP_RANK"), os.environ.get("GROUP_WORLD_SIZE")],
    "arguments": sys.argv[1:], "note": os.environ.get("NOTE"), "secret": os.environ.get("HF_TOKEN"),
}
with open(f"report.{os.environ['SLURM_PROCID']}", "w") as file:
    json.dump(found, file)
"""


def submitted(lab: Lab, devices: tuple[int, ...], *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    """Submit the script for nodes with so many devices; return its exit code, and what its tasks report in order."""
    python = sys.executable
    hosts = tuple(
        Host(f"h{at}", "10.0.0.1", devices=(*range(count),), python=python) for at, count in enumerate(devices)
    )
    job = JobSpec(
        ("train.py", *arguments), Framework.DIRECT, DIRECTORY, secrets=("HF_TOKEN",),
        env={"NOTE": "it's \"$x\"", "PYTHONPATH": str(PROJECT)},
    )  # fmt: skip
    text = slurm_script(plan_run(Cluster(hosts), job, "train")).text
    for node in lab:
        node.run("rm", "-rf", DIRECTORY)
        node.write(f"{DIRECTORY}/train.py", REPORT)
    # The nodes of the lab have other devices than the plan.
    script = re.sub(r"#SBATCH --gres=gpu:\d\n", "", text)
    words = ("env", "HF_TOKEN=secret", "sbatch", "--parsable", "--wait", f"--chdir={DIRECTORY}", "--output=/dev/null")
    ended = lab["n1"].run(*words, stdin=script.encode(), check=False)
    wait_until(lambda: not jobs(lab), "the job has ended")
    reports = [node.run("sh", "-c", f"cat {DIRECTORY}/report.*", check=False).stdout for node in lab]
    found = [json.loads(each) for each in "".join(reports).replace("}{", "}\n{").splitlines()]
    return ended.returncode, sorted(found, key=lambda each: int(each["place"]["rank"]))


def test_tasks_are_the_ranks_of_the_plan(slurm: Lab) -> None:
    devices = (2, 2)
    code, found = submitted(slurm, devices, *AWKWARD)
    assert code == 0
    placed = [(node, local_rank) for node, count in enumerate(devices) for local_rank in range(count)]
    assert len(found) == len(placed)
    for rank, (each, (node, local_rank)) in enumerate(zip(found, placed, strict=True)):
        place = each["place"]
        numbers = (place["rank"], place["world_size"], place["local_rank"], place["local_world_size"])
        assert numbers == (rank, len(placed), local_rank, devices[node])
        assert each["group"] == [str(node), str(len(devices))]
        assert (each["arguments"], each["note"], each["secret"]) == (list(AWKWARD), 'it\'s "$x"', "secret")
    assert len({each["node"] for each in found}) == len(devices)
    assert found[0]["place"]["address"] == found[0]["node"]
