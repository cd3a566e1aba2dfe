"""Programs that provisioning sends to hosts."""

from __future__ import annotations

import pytest

from pylaunch.agent.probe.registry import READERS
from pylaunch.probe.program import needed
from pylaunch.provision.observed.probe import readers_asked

ALWAYS = {"shared.text", "probe.identity", "probe.registry", "probe.readers.settings"}


@pytest.mark.parametrize(
    ("asked", "carried"),
    [
        ({}, set()),
        (
            {"gpus": ["all"], "communications": []},
            {"shared.essentials", "shared.installed", "shared.programs", "probe.gpu", "probe.readers.gpu_node"},
        ),
        ({"communications": [{}], "gpus": []}, {"shared.sockets.interfaces", "probe.readers.nccl_env"}),
        (
            {"host_facts": ["/usr/bin/python3"]},
            {
                "shared.installed", "shared.essentials", "shared.programs", "probe.altered", "probe.commands",
                "probe.gpu", "probe.readers.files", "probe.readers.packages",
                "probe.readers.services", "probe.readers.host_facts",
            },
        ),
        ({"altered": ["/opt/pylaunch/envs/1"]}, {"probe.altered", "probe.readers.environment_files"}),
    ],
)  # fmt: skip
def test_a_probe_contains_only_modules_that_its_questions_need(
    asked: dict[str, list[object]], carried: set[str]
) -> None:
    modules = [READERS[name].module.removeprefix("pylaunch.") for name in readers_asked(asked)]
    sent = {name.removeprefix("agent.") for name in needed(modules) if not name.startswith("protocol.readings.")}
    assert sent == ALWAYS | carried


def test_the_sudo_password_is_sent_only_with_questions_that_need_root() -> None:
    without = readers_asked({"packages": ["chrony"], "files": ["/etc/x"], "sshd": [], "reports": []}, "secret")
    assert "secret" not in repr(without)
    with_it = readers_asked({"packages": ["chrony"], "sshd": ["maxstartups"], "reports": ["/x"]}, "secret")
    assert {name for name, question in with_it.items() if "secret" in repr(question)} == {
        "services.sshd",
        "services.report",
    }
