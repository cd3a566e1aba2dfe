"""Rules for all tests. A unit test that starts a process fails, even if the code under test catches exceptions."""

import contextlib
import ctypes.util
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import HealthCheck, settings

from pylaunch.store.files import project_environment
from pylaunch.transport import process
from tests.node_python import NODE_PYTHON
from tests.wheels import download

settings.register_profile(
    "house", deadline=None, derandomize=True, database=None, max_examples=150,
    suppress_health_check=[HealthCheck.too_slow],  # It measures the speed of the machine.
)  # fmt: skip
settings.load_profile("house")

UNIT = {Path(__file__).parent / "unit", Path(__file__).parent / "features"}
STORIES = {Path(__file__).parent / name for name in ("lab", "roles", "starts")}
EXAMPLES = Path(__file__).parents[1] / "examples"
HERE = """\
here ansible_connection=local ansible_host=127.0.0.1 interface=lo pylaunch_node_root={directory}/node

[all:vars]
pylaunch_unprivileged=true
pylaunch_env_root={directory}/env
python_env_index={directory}/wheels
"""


def pytest_configure() -> None:
    """Accept SIGINT again, which processes that a script starts in the background ignore, and so do their children.

    Keep compiled tests even with PYTHONDONTWRITEBYTECODE: rewriting all assertions is most of the time of a collection.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.dont_write_bytecode = False


LIMIT_S = 1200.0
"""Limit of a test with its fixtures: more than any needs on a busy machine."""


class EndlessError(BaseException):
    """Not an Exception, so that no error handler catches it."""


@contextlib.contextmanager
def limited(what: str, limit_s: float = LIMIT_S) -> Iterator[None]:
    """Raise EndlessError in the main thread where it still waits after `limit_s`, for whatever."""

    def end(*_args: Any) -> NoReturn:
        raise EndlessError(f"no end after {limit_s:g} s: {what}")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """A test that hangs fails, and so does one with a fixture that hangs."""
    with limited(item.nodeid):
        return (yield)


class ProcessStartedError(BaseException):
    """Not an Exception, so that no error handler catches it."""


def _refuse(*_args: Any, **_kwargs: Any) -> NoReturn:
    raise ProcessStartedError("a unit test started a process")


@pytest.fixture(scope="session")
def _caches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Caches of all stories of this process: the packed agent, and inventories that Ansible has read."""
    return tmp_path_factory.mktemp("caches")


@pytest.fixture(autouse=True)
def _private_state(
    request: pytest.FixtureRequest, tmp_path: Path, _caches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hide the records and caches of the user who runs the tests. `pylaunch verify` does without Hypothesis."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    caches = _caches if STORIES & set(request.path.parents) else tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(caches))
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:hypothesispytest")  # Half of the time in which pytest starts.


@pytest.fixture(autouse=True)
def _no_processes_in_unit_tests(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if UNIT & set(request.path.parents):
        monkeypatch.setattr(subprocess.Popen, "__init__", _refuse)
        for name in ("fork", "posix_spawn", "posix_spawnp", "execv", "execve", "system"):
            monkeypatch.setattr(os, name, _refuse)
        # Ansible asks ldconfig for the C library when it is imported, which may be in the middle of a test.
        monkeypatch.setattr(ctypes.util, "find_library", "lib{}.so.6".format)


@pytest.fixture(scope="session")
def torch_python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An interpreter with the examples' PyTorch, provisioned on this machine as a local node."""
    directory = tmp_path_factory.mktemp("torch")
    inventory, requirements = directory / "cluster.ini", directory / "requirements.txt"
    inventory.write_text(HERE.format(directory=directory))
    wanted = (EXAMPLES / "requirements.txt").read_text().splitlines()
    requirements.write_text("".join(f"{line}\n" for line in wanted if line.startswith(("torch", "numpy"))))
    pylaunch = (sys.executable, "-m", "pylaunch")
    lock = ("env", "lock", "--python", NODE_PYTHON, str(requirements), "-i", str(inventory))
    process.run((*pylaunch, *lock), timeout_s=1800).checked()
    download(project_environment(inventory), directory / "wheels")
    process.run((*pylaunch, "provision", "-i", str(inventory)), timeout_s=1800).checked()
    yield directory / "env" / "current" / "bin" / "python"
    shutil.rmtree(directory)
