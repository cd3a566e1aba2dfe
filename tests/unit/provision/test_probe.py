"""Programs that provisioning sends to hosts."""

import pytest

from pylaunch.agent.probe.registry import READERS
from pylaunch.errors import ProvisionError
from pylaunch.probe.program import needed
from pylaunch.protocol.readings.roles import DistributionReading
from pylaunch.provision.errors import refuse_unknown
from pylaunch.provision.observed.probe import readers_asked
from pylaunch.provision.state import RoleState

ALWAYS = {"shared.text", "probe.identity", "probe.registry", "probe.readers.roles.settings"}


@pytest.mark.parametrize(
    ("asked", "carried"),
    [
        ({}, set()),
        (
            {"gpus": ["all"], "communications": []},
            {"shared.essentials", "shared.gpus", "shared.installed", "shared.programs", "probe.gpu",
             "probe.readers.roles.gpu_node"},
        ),
        ({"communications": [{}]}, {"shared.sockets.interfaces", "probe.resolver", "probe.readers.hosts.network"}),
        (
            {"host_facts": ["/usr/bin/python3"]},
            {
                "shared.installed", "shared.essentials", "shared.gpus", "shared.programs", "probe.altered",
                "probe.commands", "probe.gpu", "probe.readers.roles.files",
                "probe.readers.roles.services", "probe.readers.hosts.host_facts",
            },
        ),
        (
            {"altered": ["/opt/pylaunch/envs/1"]},
            {"probe.altered", "shared.installed", "probe.readers.roles.environments"},
        ),
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


LEAP = DistributionReading(name="openSUSE Leap 15.6", ids=["opensuse-leap", "suse"])
DEBIAN = DistributionReading(name="Debian GNU/Linux 12 (bookworm)", ids=["debian"])


def test_a_distribution_that_no_role_knows_is_refused_by_its_name() -> None:
    wanted = (RoleState("time_sync", packages=("chrony",)),)
    with pytest.raises(ProvisionError) as caught:
        refuse_unknown({"n1": wanted, "n2": wanted, "n3": wanted}, {"n1": DEBIAN, "n2": LEAP, "n3": LEAP})
    assert "not for the distribution of n[2-3]" in caught.value.message
    assert caught.value.evidence == ("n[2-3]  openSUSE Leap 15.6",)
    assert caught.value.hint is not None
    assert "pylaunch_unprivileged=true" in caught.value.hint


def test_an_unknown_distribution_is_accepted_if_no_role_depends_on_it() -> None:
    refuse_unknown({"n2": (RoleState("python_env"),)}, {"n2": LEAP})
