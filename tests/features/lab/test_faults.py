"""Faults that a lab refuses because they could not be undone."""

from __future__ import annotations

import pytest

from pylaunch.errors import LabError
from pylaunch.features.lab.cluster.node_faults.faults import Fill


@pytest.mark.parametrize("path", ["/", "//", "/usr", "/etc/", "/proc"])
def test_what_a_node_runs_from_is_not_hidden(path: str) -> None:
    with pytest.raises(LabError, match="the node itself runs from there"):
        Fill(path)


@pytest.mark.parametrize("path", ["tmp", "", "/tmp/../usr"])
def test_a_path_that_is_none_of_the_node_is_refused(path: str) -> None:
    with pytest.raises(LabError, match="expected an absolute path"):
        Fill(path)


@pytest.mark.parametrize("path", ["/var/tmp", "/var/lib/pylaunch", "/opt"])
def test_other_directories_may_be_full(path: str) -> None:
    assert Fill(path).path == path
