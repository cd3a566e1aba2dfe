"""The suite in several processes: pytest -p tests.side_by_side -n 6, which is what `make test` runs.

The unit of work is a group, usually one file. A process of pytest-xdist runs the tests of a group in order, so that the
fixtures of the group are made once.
"""

import contextlib
import os

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

ONCE = {
    "framework_lab": (
        "tests/lab/test_frameworks.py",
        "tests/lab/test_readme.py",
        "tests/lab/test_rendered",
        "tests/lab/test_torchrun.py",
    ),
    "provisioned": ("tests/roles/",),
    "slurm_lab": ("tests/lab/test_slurm",),
    "torch_python": ("tests/contract/test_torch", "tests/lab/test_bench.py"),
}
"""Session fixtures that take a minute or more to make → the beginnings of the paths of all tests that use them."""

FIRST = (
    "provisioned",
    "framework_lab",
    "tests/lab/test_firewall",
    "tests/lab/test_provision_life",
    "slurm_lab",
    "tests/lab/",
    "torch_python",
    "tests/starts/",
    "tests/contract/",
    "tests/agent/",
)
"""Beginnings of the names of the groups that start first: long groups early, so that short ones fill the end."""


NICE = os.getpriority(os.PRIO_PROCESS, 0)
BEHIND = NICE + 5
"""Nice value of all groups but the first of FIRST, which takes longest: the others would end before it."""


def group(nodeid: str) -> str:
    """Return the name of the group of a test: a fixture in ONCE, or the file."""
    return next((name for name, paths in ONCE.items() if nodeid.startswith(paths)), nodeid.partition("::")[0])


class Groups(LoadScopeScheduling):  # type: ignore[misc]
    """Give each process whole groups."""

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid)

    def _reschedule(self, node: WorkerController) -> None:
        """Give a process its next group before its last test, which it does not start without; not a test earlier."""
        if self._pending_of(self.assigned_work[node]) <= 1:
            super()._reschedule(node)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Groups:
    """Keep the order of `pytest_collection_modifyitems`."""
    config.option.loadscopereorder = False
    return Groups(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the groups as FIRST has them. Raise UsageError for a test whose file is missing in ONCE."""
    for item in items:
        for name in ONCE.keys() & set(getattr(item, "fixturenames", ())):
            if group(item.nodeid) != name:
                raise pytest.UsageError(f"{item.nodeid} uses {name}: add its file to ONCE in tests/side_by_side.py")
    items.sort(key=lambda item: _place(group(item.nodeid)))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let the longest group go before the others, on its processors and on those of its nodes."""
    if hasattr(item.config, "workerinput"):
        with contextlib.suppress(PermissionError):  # Only root goes before others again, and only root has nodes.
            os.setpriority(os.PRIO_PROCESS, 0, NICE if group(item.nodeid) == FIRST[0] else BEHIND)


def _place(name: str) -> int:
    return next((place for place, beginning in enumerate(FIRST) if name.startswith(beginning)), len(FIRST))
