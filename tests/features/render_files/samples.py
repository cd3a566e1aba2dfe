"""Plans whose scripts are compared with golden ones, and given to real programs."""

from dataclasses import replace

from pylaunch.features.render_files.scripts import slurm_script, torchrun_script
from pylaunch.model.cluster import Cluster, Host, SshOptions
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import RunPlan, plan_run

CPU = (Host("n1", "10.0.0.1"),)
EVEN = tuple(Host(f"gpu0{number}", f"10.0.0.{number}", devices=(0, 1, 2, 3)) for number in (1, 2))
UNEVEN = (
    Host("gpu01", "10.0.0.1", devices=(0, 1), interface="eth1", ssh=SshOptions(user="ml", port=2222)),
    Host("gpu02", "10.0.0.2", devices=(0, 1), interface="eth1", fabric_address="192.168.0.2"),
    Host("gpu 3", "10.0.0.3", devices=(5,), interface="ib0"),
)
AWKWARD = ("--name", 'it\'s $(x) "y"', "--glob", "a*;b", "--empty", "")
"""Arguments that a shell would change."""

SAMPLES: dict[str, tuple[tuple[Host, ...], JobSpec]] = {
    "cpu": (CPU, JobSpec(("train.py",), Framework.DIRECT, "/home/ml")),
    "even": (
        EVEN,
        JobSpec(
            ("train.py", *AWKWARD), Framework.DIRECT, "/home/ml/my project",
            env={"NCCL_DEBUG": "WARN", "NOTE": "a \"$b\" 'c'"},
            secrets=("HF_TOKEN",), python="/venv/bin/python",
        ),
    ),
    "uneven": (UNEVEN, JobSpec(("train.py",), Framework.DIRECT, "/home/ml", max_restarts=2)),
}  # fmt: skip
SCRIPTS = {
    ("cpu", "slurm"): (slurm_script, Framework.DIRECT),
    ("even", "slurm"): (slurm_script, Framework.DIRECT),
    ("even", "torchrun"): (torchrun_script, Framework.TORCHRUN),
    ("uneven", "torchrun"): (torchrun_script, Framework.TORCHRUN),
}


def planned(sample: str, framework: Framework) -> RunPlan:
    """Return the plan of a sample under `framework`."""
    hosts, job = SAMPLES[sample]
    return plan_run(Cluster(hosts), replace(job, framework=framework), "train")


def rendered(sample: str, target: str) -> str:
    """Return the script of a sample."""
    script_of, framework = SCRIPTS[sample, target]
    return script_of(planned(sample, framework)).text
