"""The modules that the probe of provisioning sends to hosts."""

from __future__ import annotations

import pytest

from pylaunch.probe.ask import needed
from pylaunch.provision.probe import _modules

ALWAYS = ("shared.text", "shared.installed", "probe.facts")


@pytest.mark.parametrize(
    ("asked", "carried"),
    [
        ([], {*ALWAYS}),
        (
            [{"gpus": ["all"], "communications": []}],
            {*ALWAYS, "shared.essentials", "probe.gpu"},
        ),
        (
            [{"communications": [{}]}, {"gpus": []}],
            {*ALWAYS, "shared.interfaces"},
        ),
        (
            [{"portraits": ["/usr/bin/python3"]}],
            {
                "shared.text",
                "shared.installed",
                "probe.facts",
                "probe.altered",
                "shared.essentials",
                "probe.gpu",
                "probe.host_facts",
            },
        ),
        (
            [{"altered": ["/opt/pylaunch/envs/1"]}],
            {*ALWAYS, "probe.altered"},
        ),
    ],
)
def test_a_probe_carries_what_somebody_asks_for_and_no_more(
    asked: list[dict[str, list[object]]], carried: set[str]
) -> None:
    assert set(needed(_modules(asked))) == carried
