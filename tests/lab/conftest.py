"""Labs for tests. `lab` is shared: leave it as it was. `fresh_lab` makes labs that a test may break."""

import contextlib
import itertools
import os
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from lab import lab as labs
from lab import spec
from lab.images import tools
from lab.lab import Lab
from lab.slurm import are_idle
from pylaunch.store.files import project_environment
from pylaunch.transport import process
from tests.lab import leftovers
from tests.lab.clones import copy_disk
from tests.lab.controller import Gate
from tests.lab.slurm_jobs import INTERPRETER, PROJECT, cancelled, jobs
from tests.node_python import NODE_PYTHON
from tests.waiting import wait_until
from tests.wheels import download

EXAMPLES = Path(__file__).parents[2] / "examples"

FAILED = pytest.StashKey[bool]()

_number = itertools.count(1)


def _new_name() -> str:
    return leftovers.own_name(next(_number))


@pytest.fixture(scope="session")
def _real_nodes() -> None:
    """Skip where labs are not possible. Remove the labs of test runs that were killed."""
    if (why_not := tools.obstacle()) is not None:
        pytest.skip(f"no lab: {why_not}")
    leftovers.remove()


@pytest.fixture(scope="session")
def lab(_real_nodes: None) -> Iterator[Lab]:
    """Three nodes, shared by all tests of one process; the examples are on every node."""
    with Lab.up(_new_name(), nodes=3, share=[EXAMPLES]) as made:
        yield made


@pytest.fixture(scope="module")
def fresh_lab(_real_nodes: None) -> Iterator[Callable[..., Lab]]:
    """Return a function that makes a lab for this module: number of nodes, and the other arguments of `Lab.up`."""
    with contextlib.ExitStack() as stack:

        def make(
            nodes: int = 1, *, share: tuple[Path, ...] = (), inventory: Path | None = None, release: str | None = None
        ) -> Lab:
            made = Lab.up(_new_name(), nodes=nodes, share=share, inventory=inventory, release=release)
            stack.callback(_down_if_there, made.spec.name)
            return made

        yield make


@pytest.fixture
def gate(lab: Lab) -> Iterator[Gate]:
    """The gate at which ranks of this story wait."""
    made = Gate(lab)
    yield made
    made.remove()


@pytest.fixture(autouse=True)
def _no_run_stays(request: pytest.FixtureRequest) -> Iterator[None]:
    """Stop the runs that a failed test left, so that they do not fail the next tests."""
    yield
    for shared in ("lab", "framework_lab"):
        if shared in request.fixturenames and _failed(request):
            made: Lab = request.getfixturevalue(shared)
            made.pylaunch("stop", "--all", "-i", str(made.inventory), timeout_s=60)


def _failed(request: pytest.FixtureRequest) -> bool:
    return bool(request.node.stash.get(FAILED, False))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Record a failure for fixtures."""
    report = yield
    if report.failed:
        item.stash[FAILED] = True
    return report


@pytest.fixture(scope="session")
def framework_lab(_real_nodes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Two nodes with an environment that has every framework; the story of the README changes the rest of them.

    Both nodes share the directory of the inventory.
    """
    shared = tmp_path_factory.mktemp("shared")
    wheels = shared / "wheels"
    _wheel("deepspeed", wheels)
    requirements = shared / "requirements.txt"
    requirements.write_text(f"-r {EXAMPLES / 'requirements-frameworks.txt'}\n--find-links {wheels}\n")
    with Lab.up(_new_name(), nodes=2, share=(EXAMPLES, shared), inventory=shared / "cluster.ini") as made:
        inventory = ("-i", str(made.inventory))
        made.inventory.write_text(f"{made.inventory.read_text()}\n[cluster:vars]\npython_env_index={wheels}\n")
        made.pylaunch("env", "lock", *inventory, "--python", NODE_PYTHON, str(requirements), timeout_s=600).checked()
        download(project_environment(made.inventory), wheels, "six==1.17.0")  # The README locks it, too.
        # Byte code of the frameworks costs half a minute of a processor.
        words = ("provision", *inventory, "--roles", "python_env", "--limit", "n1")
        made.pylaunch(*words, timeout_s=1200).checked()
        copy_disk(made, "n1", "n2")
        for node in made:  # JAX meets at a host's own name.
            node.run("sed", "-i", f"s/^127.0.1.1/{node.address}/", "/etc/hosts")
        yield made


def _wheel(distribution: str, directory: Path) -> None:
    """Build a wheel of a package without wheels, in the version that the examples require."""
    wanted = (EXAMPLES / "requirements-frameworks.txt").read_text().splitlines()
    pinned = next(line for line in wanted if line.startswith(f"{distribution}=="))
    words = (
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--disable-pip-version-check",
        "--wheel-dir",
        str(directory),
        pinned,
    )
    process.run((sys.executable, "-m", *words), env={**os.environ, "DS_BUILD_OPS": "0"}, timeout_s=300).checked()


@pytest.fixture(scope="session")
def slurm_lab(_real_nodes: None) -> Iterator[Lab]:
    """Three nodes with Slurm, which see this project and its Python."""
    share = (PROJECT, *(path for path in INTERPRETER if not path.is_relative_to(PROJECT)))
    with labs.start(labs.Request(_new_name(), 3, share, addition="slurm"), lambda line: None) as made:
        yield made


@pytest.fixture
def slurm(slurm_lab: Lab) -> Iterator[Lab]:
    """Three idle nodes with Slurm. A story leaves no job; jobs of a failed one are cancelled."""
    wait_until(lambda: are_idle(slurm_lab["n1"], 3), "all nodes are idle")
    yield slurm_lab
    left = jobs(slurm_lab)
    if left:
        cancelled(slurm_lab, *left)
    assert not left, f"jobs remain: {left}"


@pytest.fixture
def lab_name(_real_nodes: None) -> Iterator[str]:
    """A name for a lab that the story makes; the fixture removes leftovers."""
    name = _new_name()
    yield name
    _down_if_there(name)


def _down_if_there(name: str) -> None:
    if name in spec.names():
        labs.down(name)
