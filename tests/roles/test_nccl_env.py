import json
from collections.abc import Iterator

import pytest
from testinfra.host import Host

from lab.nodes.node import LabNode
from tests.roles.conftest import NODES, Provisioned


@pytest.fixture
def n2(provisioned: Provisioned) -> Iterator[LabNode]:
    """A node that a test disturbs; provisioned again afterwards."""
    yield provisioned.lab["n2"]
    provisioned.lab.pylaunch("provision", "-i", str(provisioned.lab.inventory), "--roles", "nccl_env")


def plan(provisioned: Provisioned, *arguments: str) -> str:
    inventory = str(provisioned.lab.inventory)
    done = provisioned.lab.pylaunch("provision", "-i", inventory, "--roles", "nccl_env", "--plan", *arguments)
    return done.stdout + done.stderr


def test_nccl_gets_the_interface_that_leads_to_the_other_nodes(node: Host, provisioned: Provisioned) -> None:
    peers = [provisioned.lab[name].address for name in NODES]
    own = node.check_output("hostname -I").split()
    peer = next(address for address in peers if address not in own)
    (route,) = json.loads(node.check_output("ip -json route get %s", peer))
    conf = node.file("/etc/nccl.conf")
    assert f"NCCL_SOCKET_IFNAME=={route['dev']}" in conf.content_string.splitlines()
    assert (conf.user, conf.mode) == ("root", 0o644)


def test_the_environment_of_runs_names_the_same_interface_to_gloo(node: Host) -> None:
    variables = json.loads(node.file("/etc/pylaunch/environment.json").content_string)["variables"]
    assert "=" + variables["GLOO_SOCKET_IFNAME"] == variables["NCCL_SOCKET_IFNAME"]


def test_ranks_see_the_variables_of_their_node_below_those_of_the_run(provisioned: Provisioned) -> None:
    lab = provisioned.lab
    words = ["--framework", "command", "--workdir", "/tmp", "--env", "NCCL_DEBUG=VERSION", "--", "env"]
    output = lab.pylaunch("start", "-i", str(lab.inventory), *words).stdout
    assert output.count("NCCL_DEBUG=VERSION") == len(NODES)
    assert output.count("GLOO_SOCKET_IFNAME=host0") == len(NODES)


def test_a_file_of_somebody_else_is_named_and_kept(provisioned: Provisioned, n2: LabNode) -> None:
    n2.run("sh", "-c", "echo NCCL_DEBUG=INFO > /etc/nccl.conf")
    planned = plan(provisioned)
    assert "n2     nccl_env  /etc/nccl.conf  content differs" in planned
    provisioned.lab.pylaunch("provision", "-i", str(provisioned.lab.inventory), "--roles", "nccl_env")
    assert n2.run("sh", "-c", "cat /etc/nccl.conf.*~").stdout == "NCCL_DEBUG=INFO\n"
    assert "Written by pylaunch" in n2.run("cat", "/etc/nccl.conf").stdout


def test_an_interface_that_no_longer_leads_to_the_others_is_drift(provisioned: Provisioned, n2: LabNode) -> None:
    n2.run("ip", "link", "add", "fabric0", "type", "veth", "peer", "name", "fabric1")
    try:
        n2.run("ip", "address", "add", "10.99.0.2/24", "dev", "fabric0")
        for interface in ("fabric0", "fabric1"):
            n2.run("ip", "link", "set", interface, "up")
        for peer in ("n1", "n3"):
            n2.run("ip", "route", "add", provisioned.lab[peer].address, "dev", "fabric0", "src", "10.99.0.2")
            found = plan(provisioned)
            if peer == "n1":
                assert "over several interfaces" in found
        assert "is over fabric0, not over host0" in found
        assert "nccl_env: Write the settings of NCCL and of pylaunch's runs: would change on n2" in found
    finally:
        n2.run("ip", "link", "delete", "fabric0")
    assert "3 hosts: nothing to change" in plan(provisioned)


def test_a_wrong_variable_stops_provision_before_anything_is_changed(provisioned: Provisioned, n2: LabNode) -> None:
    inventory = provisioned.lab.inventory
    text = inventory.read_text()
    try:
        inventory.write_text(text + '\n[cluster:vars]\nnccl_env_variables={"NCCL_IB_TIMEOUT": 99}\n')
        done = provisioned.lab.pylaunch("provision", "-i", str(inventory), "--roles", "nccl_env")
    finally:
        inventory.write_text(text)
    assert done.returncode == 2
    assert "nccl_env_variables of n[1-3]: NCCL_IB_TIMEOUT=99: expected a whole number 0 … 31" in done.stderr
    assert "NCCL_IB_TIMEOUT" not in n2.run("cat", "/etc/nccl.conf").stdout
