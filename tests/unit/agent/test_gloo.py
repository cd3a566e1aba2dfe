"""gloo listens on the address of the host name: a node where that is loopback is refused if the ranks use gloo."""

import dataclasses
import socket
import threading

import pytest

from pylaunch import protocol
from pylaunch.agent.run import checks
from pylaunch.agent.shared.sockets import interfaces

INTERFACE_SET = {"GLOO_SOCKET_IFNAME": "eth0"}


@pytest.mark.parametrize(
    ("gloo", "env", "world_size", "machines", "refused"),
    [
        ("torch", {}, 2, 2, True),
        ("torch", INTERFACE_SET, 2, 2, False),
        ("jax", {}, 2, 2, True),
        ("jax", INTERFACE_SET, 2, 2, True),
        ("", {}, 2, 2, False),
        ("torch", {}, 1, 1, False),
        ("torch", {}, 2, 1, False),
        ("jax", {}, 2, 1, False),
    ],
)
def test_a_host_name_on_loopback_is_refused_where_gloo_listens_there(
    monkeypatch: pytest.MonkeyPatch, gloo: str, env: dict[str, str], world_size: int, machines: int, refused: bool
) -> None:
    answer = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.1.1", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *asked: answer)
    ranks = [protocol.RankTask(0, 0, ["true"], {})]
    task = protocol.NodeTask(
        run="r1", host="n1", node_rank=0, workdir="/", ranks=ranks, env=env, launcher=[], hold_port=None, devices=[],
        needs=[], grace_s=1.0, world_size=world_size, gloo=gloo, machines=machines,
    )  # fmt: skip
    assert [reason.code for reason in checks._hostname(task)] == (["hostname-loopback"] if refused else [])
    unknown = dataclasses.replace(task, peers={"n1": "a.invalid", "n2": "b.invalid"})

    def is_unknown(*_: object) -> None:
        raise interfaces.UndecidedError("b.invalid cannot be reached: Name or service not known")

    monkeypatch.setattr(interfaces, "interface_to", is_unknown)
    for reason in checks._hostname(unknown):
        assert reason.message.startswith("b.invalid cannot be reached: Name or service not known, so that")
        assert reason.hint.startswith("an address that all nodes reach: ")


def test_a_name_server_that_does_not_answer_delays_a_start_by_its_limit_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = threading.Event()
    monkeypatch.setattr(checks, "OWN_NAME_S", 0.05)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *asked: answers.wait() and [])
    assert checks._own_addresses() == []
    answers.set()


def test_a_node_that_starts_no_thread_knows_no_address_of_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    assert checks._own_addresses() == []
