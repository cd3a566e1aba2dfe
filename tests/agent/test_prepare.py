"""A node that refuses a run reports every reason at once, and holds nothing afterwards."""

import os
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from pylaunch import protocol
from pylaunch.agent.run import spawn
from pylaunch.agent.run.holdings import Holdings
from pylaunch.agent.shared import leases
from pylaunch.agent.shared.sockets import ports
from pylaunch.base.layout import NodeRoot
from tests.agent.controller import Node, gone, task
from tests.ports import free_port


def reasons(node: Node, asked: protocol.NodeTask) -> dict[str, protocol.Reason]:
    return {reason.code: reason for reason in node.refusal(asked)}


def test_all_missing_things_are_reported_at_once(node: Node, tmp_path: Path) -> None:
    (tmp_path / "a plain").write_text("")
    needs = [protocol.Need(path, "look") for path in ("train.py", "/usr/bin/env", str(tmp_path / "x"))]
    asked = task(tmp_path, [str(tmp_path / "a plain")], ["no-such-program"], needs=needs)
    refused = node.refusal(asked)
    assert refused[0].hint == f"chmod +x '{tmp_path}/a plain', or -- bash '{tmp_path}/a plain'"
    assert [reason.message for reason in refused] == [
        f"program {tmp_path}/a plain is not executable",
        f"program no-such-program is not on PATH ({asked.env['PATH']})",
        f"{tmp_path}/train.py does not exist",
        f"{tmp_path}/x does not exist",
    ]


@pytest.mark.parametrize(("name", "words"), [("absent", "does not exist"), ("file", "is not a directory")])
def test_a_working_directory_that_is_none_is_named(node: Node, tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / "file").write_text("")
    found = reasons(node, task(tmp_path / name, "true"))
    assert found["workdir-missing"].message == f"working directory {tmp_path}/{name} {words}"
    assert found["workdir-missing"].hint.startswith("take the code along with --sync .")


def test_a_refused_run_leaves_nothing_behind(node: Node, tmp_path: Path) -> None:
    port = free_port()
    controller = node.open()
    controller.send(protocol.Prepare(task(tmp_path / "absent", "true", hold_port=port, devices=[900])))
    controller.until(protocol.Refused)
    assert controller.receive() is None
    gone(node.supervisor(controller))
    node.prepared(task(tmp_path, "true", run="r2", hold_port=port, devices=[900]))


def test_the_process_on_the_rendezvous_port_is_named(node: Node, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        found = reasons(node, task(tmp_path, "true", hold_port=port))
    assert f"port {port} is held by pid {os.getpid()} (" in found["port-busy"].message
    assert "--port" in found["port-busy"].hint


def test_a_run_that_listens_on_the_port_is_named_with_how_to_stop_it(node: Node, tmp_path: Path) -> None:
    script = (
        "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); s.accept()"
    )
    first = node.started(task(tmp_path, ["/usr/bin/python3", "-c", script]))
    port = int(first.until(protocol.Output).text)
    found = reasons(node, task(tmp_path, "true", run="r2", hold_port=port))
    assert "run r1" in found["port-busy"].message
    assert found["port-busy"].hint == "pylaunch stop r1"


def test_a_node_that_chooses_the_port_reports_it_and_its_processes_get_it_at_the_release(
    node: Node, tmp_path: Path
) -> None:
    env = {"PATH": os.environ["PATH"], "MASTER_PORT": spawn.PORT_ENTRY}
    show = "echo $MASTER_PORT"
    controller = node.prepared(task(tmp_path, show, show, choose_port=True, env=env))
    (ready,) = controller.all(protocol.Ready)
    assert ready.rendezvous_port in {port for candidates in ports.CANDIDATES for port in candidates}
    controller.send(protocol.Follow({}, None), protocol.Release(0.0, rendezvous_port=ready.rendezvous_port))
    controller.until(protocol.Finished)
    assert [controller.text(stream) for stream in ("0.out", "1.out")] == [f"{ready.rendezvous_port}\n"] * 2


def test_runs_that_choose_at_the_same_time_choose_different_ports(node: Node, tmp_path: Path) -> None:
    chosen = [
        node.prepared(task(tmp_path, "true", run=run, choose_port=True)).all(protocol.Ready)[0].rendezvous_port
        for run in ("r1", "r2", "r3")
    ]
    assert len(set(chosen)) == 3


@pytest.mark.parametrize(
    ("member_ports", "message"),
    [
        (["ephemeral"], "no port can be chosen for the rendezvous: the firewall opens none"),
        (["{busy}"], "none of 1 ports for the rendezvous, of those that the firewall opens to the members, is free"),
    ],
)
def test_a_firewall_without_a_port_for_the_rendezvous_is_reported_with_the_fix(
    member_ports: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        opened = ports.numbers(each.format(busy=busy.getsockname()[1]) for each in member_ports)
        monkeypatch.setattr(ports, "opened", lambda path="": opened)
        holdings = Holdings(task(tmp_path, "true", choose_port=True), NodeRoot(str(tmp_path)))
        (reason,) = holdings.take()
    assert reason.message.startswith(message)
    assert "firewall_member_ports" in reason.hint


def test_a_holder_of_a_port_that_ends_meanwhile_has_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    monkeypatch.setattr(ports, "opened", lambda path="": {port})
    monkeypatch.setattr(leases, "holder", lambda name: None)
    with leases.bind(leases.port_name(port)) or pytest.fail("it is leased"):
        (reason,) = Holdings(task(tmp_path, "true", choose_port=True), NodeRoot(str(tmp_path))).take()
    assert reason.message.endswith(f"; port {port} is held for a process that does not answer")


def test_an_interface_that_is_not_there_is_named(node: Node, tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "GLOO_SOCKET_IFNAME": "ib7", "NCCL_SOCKET_IFNAME": "^docker"}
    found = reasons(node, task(tmp_path, "true", env=env))
    assert found["interface-missing"].message.startswith("GLOO_SOCKET_IFNAME=ib7 names no interface here: there are ")


@pytest.mark.parametrize("address", ["0.0.0.0", "::"])
def test_a_held_port_accepts_the_rank_and_no_process_without_port_sharing(
    node: Node, tmp_path: Path, address: str
) -> None:
    port = free_port()
    script = (
        "import socket, sys; s = socket.socket(socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET);"
        "s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(sys.argv[3]));"
        "s.bind((sys.argv[1], int(sys.argv[2]))); s.listen(); print('listening')"
    )
    listen = shlex.join(["/usr/bin/python3", "-c", script, address, str(port)])
    controller = node.started(task(tmp_path, f"{listen} 1; {listen} 0; true", hold_port=port))
    finished = controller.until(protocol.Finished)
    assert controller.text("0.out") == "listening\n"
    assert "Address already in use" in controller.text("0.err")
    assert finished.leftovers == []


def test_a_leased_device_is_refused_with_its_holder_and_free_when_the_holder_is_killed(
    node: Node, tmp_path: Path
) -> None:
    first = node.prepared(task(tmp_path, "true", devices=[900, 901]))
    found = node.refusal(task(tmp_path, "true", run="r2", devices=[901, 902]))
    assert [reason.code for reason in found] == ["device-leased"]
    assert "device 901 is leased to run r1 of " in found[0].message
    assert found[0].hint == "pylaunch stop r1"
    supervisor = node.supervisor(first)
    # A process at the gate has the descriptors of its agent until it ends.
    at_gate = map(int, Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split())
    agent = [supervisor, *at_gate]
    assert len(agent) == 2
    os.kill(supervisor, 9)
    gone(*agent)
    node.prepared(task(tmp_path, "true", run="r3", devices=[900, 901, 902]))


@pytest.mark.skipif(os.getuid() != 0, reason="mounts a small file system")
def test_a_full_disk_is_refused_with_the_free_space(node: Node, tmp_path: Path) -> None:
    node.ask("runs")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "small", node.root / "runs"], check=True)
    try:
        free = reasons(node, task(tmp_path, "true"))["disk-full"]
        assert "64 MiB wanted" in free.message
        assert str(node.root) in free.message
        subprocess.run(["dd", "if=/dev/zero", f"of={node.root}/runs/fill", "status=none"], check=False)
        full = reasons(node, task(tmp_path, "true", run="r2"))["disk-full"]
        assert "0.0 MiB free" in full.message or "No space left on device" in full.message
    finally:
        subprocess.run(["umount", "--lazy", node.root / "runs"], check=True)


def test_only_the_controller_that_prepared_may_release(node: Node, tmp_path: Path) -> None:
    node.prepared(task(tmp_path, "touch ran"))
    other = node.attach()
    other.send(protocol.Release(0.0))
    assert "has not prepared" in other.until(protocol.Failed).message
    assert not (tmp_path / "ran").exists()


def test_ready_reports_the_facts_that_all_nodes_must_share(node: Node, tmp_path: Path) -> None:
    for name in ("torch-2.8.0+cu128", "nvidia_nccl_cu12-2.27.3"):
        packages = tmp_path / "env" / "lib" / "python3.12" / "site-packages" / f"{name}.dist-info"
        packages.mkdir(parents=True)
        (packages / "RECORD").write_text("")
    controller = node.prepared(task(tmp_path, "true", python=str(tmp_path / "env" / "bin" / "python")))
    (ready,) = controller.all(protocol.Ready)
    assert (ready.essentials["torch"], ready.essentials["nccl"]) == ("2.8.0+cu128", "2.27.3")
    assert ready.essentials["kernel series"] == ".".join(os.uname().release.split(".")[:2])
    assert len(ready.essentials["environment digest"]) == 64


def test_a_node_that_was_provisioned_as_the_only_one_refuses_to_be_one_of_several(node: Node, tmp_path: Path) -> None:
    file = tmp_path / "environment.json"
    file.write_text('{"variables": {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "=lo"}}')
    refused = reasons(node, task(tmp_path, "true", env_file=str(file), machines=2))
    assert list(refused) == ["loopback-interface"]
    assert "GLOO_SOCKET_IFNAME is lo here" in refused["loopback-interface"].message


def test_torchrun_in_an_environment_without_torch_is_refused(node: Node, tmp_path: Path) -> None:
    launcher = [sys.executable, "-m", "torch.distributed.run", protocol.RANK_ENTRY]
    found = reasons(node, task(tmp_path, "true", launcher=launcher))["launcher-missing"]
    assert found.message == f"{sys.executable} has no module torch, of which torch.distributed.run is a part"
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/__init__.py").touch()
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path)}
    node.prepared(task(tmp_path, "true", run="r2", launcher=launcher, env=env))


def test_a_script_that_only_the_node_could_read_is_refused_where_it_needs_another_framework(
    node: Node, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text("from accelerate import Accelerator")
    found = reasons(node, task(tmp_path, "true", unread_program=["train.py"]))["framework"]
    assert found.message.startswith(f"{tmp_path}/train.py uses accelerate.Accelerator")
    assert found.hint == "--framework accelerate, or --framework direct to insist"
    (tmp_path / "train.py").write_text("import torch.distributed")
    node.prepared(task(tmp_path, "true", run="r2", unread_program=["train.py"]))
    node.prepared(task(tmp_path, "true", run="r3", unread_program=["-m", "installed.somewhere"]))


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\xb7\x00" + bytes(44), "Exec format error"),
        (b"#!/nowhere/loader\n", "No such file or directory"),
        (b"#!/bin/sh\necho error while loading shared libraries: libpython3.11.so.1.0 >&2; exit 127\n",
         "error while loading shared libraries: libpython3.11.so.1.0"),
    ],
    ids=["architecture", "loader", "library"],
)  # fmt: skip
def test_an_interpreter_that_does_not_run_is_refused_with_its_message(
    node: Node, tmp_path: Path, content: bytes, complaint: str
) -> None:
    python = tmp_path / "python"
    python.write_bytes(content)
    python.chmod(0o755)
    found = reasons(node, task(tmp_path, [str(python), "train.py"], python=str(python)))
    assert found["interpreter-broken"].message == f"{python} does not run on this node: {complaint}"
    assert found["interpreter-broken"].hint == "repair it there, or choose another: --python PATH"
