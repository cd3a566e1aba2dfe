"""What travels to hosts that are asked about provisioning."""

from __future__ import annotations

import pytest

from pylaunch.probe.ask import needed
from pylaunch.provision.probe import _modules


@pytest.mark.parametrize(
    ("asked", "carried"),
    [
        ([], {"text", "installed", "facts"}),
        ([{"gpus": ["all"], "communications": []}], {"text", "installed", "facts", "essentials", "gpu"}),
        ([{"communications": [{}]}, {"gpus": []}], {"text", "installed", "facts", "communication"}),
        (
            [{"portraits": ["/usr/bin/python3"]}],
            {"text", "installed", "facts", "altered", "essentials", "gpu", "portrait"},
        ),
        ([{"altered": ["/opt/pylaunch/envs/1"]}], {"text", "installed", "facts", "altered"}),
    ],
)
def test_a_probe_carries_what_somebody_asks_for_and_no_more(
    asked: list[dict[str, list[object]]], carried: set[str]
) -> None:
    assert set(needed(_modules(asked))) == carried
