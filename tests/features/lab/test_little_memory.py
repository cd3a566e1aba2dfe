"""Faults of memory: the limit of a node ends with all of its processes outside."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from pylaunch.features.lab.cluster.node_faults import resource_faults
from pylaunch.features.lab.cluster.node_faults.resource_faults import LittleMemory
from pylaunch.features.lab.cluster.nodes.machine import Machine


class Forking:
    """A node with a process that was forked after the others were listed: the directory `forked` stands for it."""

    def __init__(self, forked: Path) -> None:
        self.cgroup: Any = self
        self._forked = forked
        self._is_listed = False

    def processes(self) -> list[int]:
        if self._is_listed:
            self._forked.rmdir()
        self._is_listed = True
        return []


def test_a_process_that_is_forked_while_the_limit_is_removed_does_not_keep_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited = tmp_path / "n1"
    forked = limited / "forked"
    forked.mkdir(parents=True)
    monkeypatch.setattr(resource_faults, "_memory_cgroup", lambda node: limited)
    LittleMemory(1).undo(cast(Machine, Forking(forked)))
    assert not limited.exists()
