"""Network variables of NCCL and gloo, compared with the network of the host."""

from __future__ import annotations

import json
import re

import pytest
from conftest import RoleVariables
from testinfra.host import Host

pytestmark = pytest.mark.role("nccl_env")

CONF = "/etc/nccl.conf"
ENVIRONMENT = "/etc/pylaunch/environment.json"


def settings(host: Host) -> dict[str, str]:
    """The file as NCCL reads it: lines of NAME=VALUE, verbatim."""
    lines = host.file(CONF).content_string.splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


def interfaces(host: Host) -> set[str]:
    """The interfaces that the two files name."""
    variables = json.loads(host.file(ENVIRONMENT).content_string)["variables"]
    named = (settings(host).get("NCCL_SOCKET_IFNAME"), variables.get("GLOO_SOCKET_IFNAME"))
    return {name for each in named if each for name in each.lstrip("=").split(",")}


def test_nccl_can_read_its_file(variables: RoleVariables, host: Host) -> None:
    file = host.file(CONF)
    assert file.exists
    assert file.mode & 0o444 == 0o444, "every user's ranks read it"
    for line in file.content_string.splitlines():
        assert not line or line.startswith("#") or re.fullmatch(r"NCCL_\w+=[^\s'\"]+", line), line


def test_the_interface_of_ranks_is_there_and_up(variables: RoleVariables, host: Host) -> None:
    named = interfaces(host)
    assert named
    for interface in named:
        shown = host.run("ip -json address show dev %s", interface)
        assert shown.rc == 0, f"{interface}: {shown.stderr.strip()}"
        (found,) = json.loads(shown.stdout)
        assert "UP" in found["flags"], f"{interface} is down"
        assert found["addr_info"], f"{interface} has no address"


def test_the_adapters_of_ranks_are_there(variables: RoleVariables, host: Host) -> None:
    adapters = settings(host).get("NCCL_IB_HCA", "").lstrip("=^")
    if not adapters:
        pytest.skip("no adapter is named: ranks talk over Ethernet")
    present = host.check_output("ls /sys/class/infiniband").split()
    assert [each for each in adapters.split(",") if each.partition(":")[0] not in present] == []


def test_variables_of_the_inventory_are_in_the_environment_of_runs(variables: RoleVariables, host: Host) -> None:
    wanted = {name: str(value) for name, value in variables["nccl_env_variables"].items()}
    found = json.loads(host.file(ENVIRONMENT).content_string)["variables"]
    assert wanted.items() <= found.items()
    assert {name: value for name, value in wanted.items() if name.startswith("NCCL_")}.items() <= settings(host).items()
