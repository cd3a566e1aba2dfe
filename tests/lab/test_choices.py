"""Values that nodes choose for a run: its rendezvous port, and the interface of its ranks."""

from lab.lab import Lab
from pylaunch.errors import ExitCode
from pylaunch.transport.process import Completed
from tests.lab.controller import events

COMMAND = ("--framework", "command", "--workdir", "/", "--skip", "all")
REPORT = 'echo "$MASTER_PORT $NCCL_SOCKET_IFNAME $GLOO_SOCKET_IFNAME $TP_SOCKET_IFNAME"'
MEET = """\
import os, socket
place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
others = int(os.environ["WORLD_SIZE"]) - 1
if os.environ["RANK"] == "0":
    listener = socket.create_server(place)
    for _ in range(others):
        listener.accept()[0].sendall(b"welcome")
else:
    while True:
        try:
            print(socket.create_connection(place, timeout=60).recv(7).decode())
            break
        except ConnectionRefusedError:
            pass
"""


def start(lab: Lab, *words: str) -> Completed:
    return lab.pylaunch("start", "-i", str(lab.inventory), *COMMAND, *words)


def test_every_rank_gets_the_port_and_the_interface_that_its_node_chose(lab: Lab) -> None:
    run = start(lab, "--", "sh", "-c", REPORT)
    assert run.returncode == ExitCode.DONE, run.stderr
    reported = {line.partition("| ")[2] for line in run.stdout.splitlines()}
    assert reported == {"29500 =host0 host0 host0"}
    released = next(event for event in events(lab) if event["kind"] == "released" and event["host"] is None)
    assert released["text"] == "rendezvous port 29500"


def test_a_port_that_a_stranger_has_is_passed_over_and_ranks_meet_at_the_next(lab: Lab) -> None:
    with lab["n1"].occupy(29500):
        run = start(lab, "--", "python3", "-c", MEET)
    assert run.returncode == ExitCode.DONE, run.stderr
    assert run.stdout.count("welcome") == 2
    released = next(event for event in events(lab) if event["kind"] == "released" and event["host"] is None)
    assert released["text"] == "rendezvous port 29501"
