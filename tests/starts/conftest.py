from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.documents import ROOT
from tests.starts.cluster import DirectoryCluster, made_of_directories, no_process_stays
from tests.starts.containers import image, podman

__all__ = ["image", "podman"]


@pytest.fixture
def directories(tmp_path: Path) -> Iterator[Callable[..., DirectoryCluster]]:
    """Makes a cluster of directories; call it with the names of its nodes."""
    with ExitStack() as stack:

        def make(*names: str) -> DirectoryCluster:
            made = made_of_directories(tmp_path, names)
            stack.enter_context(no_process_stays(made))
            return made

        yield make


HOSTS = [f"gpu{number:02}" for number in range(1, 9)]
SCRIPTS = {
    "train.py": "import torch.distributed\n",
    "package/__init__.py": "",
    "package/train.py": "import torch.distributed\n",
    "mpi.py": "from mpi4py import MPI\n",
    "jaxed.py": "import jax\njax.distributed.initialize()\n",
}


@pytest.fixture(scope="session")
def _project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("project")
    inventory = made_of_directories(directory, HOSTS).inventory
    inventory.write_text(inventory.read_text().replace("pylaunch_node_root=", "topology=rack1 pylaunch_node_root="))
    for name, text in SCRIPTS.items():
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_text(text)
    (directory / "examples").symlink_to(ROOT / "examples")
    for path in (ROOT / "examples" / "roles").iterdir():
        (directory / path.name).write_text(path.read_text())
    for name, example in (
        ("driver.py", "examples/ray_driver.py"),
        ("vllm.toml", "examples/vllm/job.toml"),
        ("torchft.toml", "examples/torchft/job.toml"),
        ("client.py", "examples/vllm/client.py"),
    ):
        (directory / name).write_text((ROOT / example).read_text())
    (directory / "job.env").write_text("NCCL_DEBUG=WARN\n")
    (directory / "accelerate.env").write_text("ACCELERATE_MIXED_PRECISION=bf16\n")
    return directory


@pytest.fixture
def in_project(_project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of a reader: cluster.ini with the hosts of the guides, and the files that they name."""
    monkeypatch.chdir(_project)
    monkeypatch.setenv("XDG_CACHE_HOME", str(_project / ".pylaunch"))  # Ansible reads the inventory once.
    for name in ("HF_TOKEN", "HF_HOME", "WANDB_API_KEY"):
        monkeypatch.setenv(name, "of the reader")
    return _project


def as_dry_run(words: Sequence[str]) -> list[str]:
    """Return a command line of `start` or `render` that contacts no host."""
    return [*words[:1], *(["--dry-run"] if words[0] == "start" and "--dry-run" not in words else []), *words[1:]]
