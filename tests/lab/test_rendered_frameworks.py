"""Files of `pylaunch render` for accelerate and DeepSpeed: their own launchers start them on real nodes."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lab.lab import Lab
from pylaunch.transport.process import Completed

EXAMPLES = Path(__file__).parents[2] / "examples"


def rendered(lab: Lab, target: str, *words: str) -> Path:
    """Return a directory that the nodes share, with the files of `target`."""
    directory = lab.inventory.parent / f"rendered-{target}"
    options = ("-i", str(lab.inventory), "--output", str(directory), "--workdir", str(lab.inventory.parent))
    lab.pylaunch("render", target, *options, *words, timeout_s=60).checked()
    return directory


def started(lab: Lab, directory: Path, files: dict[str, str]) -> list[Completed]:
    """Return the ends of these files, by node, which were started on all nodes together."""
    with ThreadPoolExecutor(len(files)) as pool:
        return list(pool.map(lambda each: run_on(lab, each[0], directory / each[1]), files.items()))


def run_on(lab: Lab, node: str, file: Path) -> Completed:
    # A file that waits for another node in vain ends, and its output shows why.
    return lab[node].run("timeout", "120", "bash", str(file), check=False)


def test_accelerate_starts_one_world_from_the_configurations_of_its_machines(framework_lab: Lab) -> None:
    script = str(EXAMPLES / "accelerate_train.py")
    directory = rendered(framework_lab, "accelerate", "--nproc-per-node", "2", "--", script, "--epochs", "1")
    ends = started(framework_lab, directory, {"n1": "accelerate-n1.sh", "n2": "accelerate-n2.sh"})
    assert [each.returncode for each in ends] == [0, 0], [each.stderr[-3000:] for each in ends]
    assert [each.stdout.count(" of 4 on ") for each in ends] == [2, 2]
    assert "trained on 4 ranks" in ends[0].stdout


def test_the_launcher_of_deepspeed_starts_the_ranks_of_its_script(framework_lab: Lab) -> None:
    config = ("--deepspeed", "--deepspeed_config", str(EXAMPLES / "deepspeed.json"))
    words = (str(EXAMPLES / "deepspeed_train.py"), *config, "--epochs", "1")
    directory = rendered(framework_lab, "deepspeed", "--nodes", "1", "--nproc-per-node", "2", "--", *words)
    (ended,) = started(framework_lab, directory, {"n1": "deepspeed.sh"})
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert "rank 1 of 2 on n1: ZeRO 1" in ended.stdout
    assert "trained on 2 ranks" in ended.stdout
