"""Shared by stories about firewalls: provisioned nodes, connections to ports, and new logins."""

import json
import socket
from dataclasses import dataclass
from pathlib import Path

from lab.lab import Lab
from lab.nodes.node import LabNode
from pylaunch.inventory import load_cluster
from pylaunch.transport import process
from pylaunch.transport.connections import connector_of
from pylaunch.transport.process import Completed

RANK_PORT = 40000
"""One of the kernel's ephemeral ports, as NCCL and gloo use them."""

RENDEZVOUS_PORT = 29500
OTHER_PORT = 8080
WITHIN_S = 12
"""Longest time that rules which lock the controller out may last. All others get more: a busy machine confirms late."""


CONNECT = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=2).close()
    print("open")
except ConnectionRefusedError:
    print("refused")
except TimeoutError:
    print("silent")
except OSError as error:
    print(error.strerror)
"""

ECHO = """
import os, socket, socketserver, sys
class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            self.wfile.write(line)
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
with Server(("", int(sys.argv[1])), Echo) as server:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.sendto(b"READY=1", os.environ["NOTIFY_SOCKET"])
    server.serve_forever()
"""


@dataclass(frozen=True)
class Guarded:
    """A lab, some of whose nodes are provisioned with the role; the others are machines of nobody's."""

    lab: Lab
    inventory: Path

    def settings(self, **variables: object) -> None:
        """Variables of all hosts, besides those that are always set."""
        always = {"firewall_enabled": True, "firewall_confirm_within": 60, "firewall_guests": ["fd00::7"]}
        directory = self.inventory.parent / "group_vars"
        directory.mkdir(exist_ok=True)
        (directory / "cluster.json").write_text(json.dumps({**always, **variables}))

    def members(self, names: tuple[str, ...]) -> None:
        """Have the inventory list these nodes."""
        lines = self.lab.inventory.read_text().splitlines()
        self.inventory.write_text("\n".join(line for line in lines if not line.startswith("n") or line[:2] in names))

    def provision(self, *words: str) -> Completed:
        return self.lab.pylaunch("provision", "-i", str(self.inventory), "--roles", "firewall", *words)

    def plan(self, *words: str) -> dict[str, list[str]]:
        """Differences by node."""
        planned = self.provision("--plan", "--json", *words)
        return {
            each["host"]: [change["difference"] for change in each["differences"]]
            for each in json.loads(planned.stdout)["hosts"]
        }

    def drift(self) -> dict[str, list[str]]:
        """What `pylaunch check` finds to differ, by node. Unlike a plan, it runs no Ansible."""
        words = ("check", "-i", str(self.inventory), "--only", "roles.drift", "--json")
        found: dict[str, list[str]] = {}
        for each in json.loads(self.lab.pylaunch(*words).stdout)["findings"]:
            for host in each["hosts"]:
                found.setdefault(host, []).append(each["text"].removeprefix("firewall: "))
        return found

    def knock(self, source: str, target: str, port: int) -> str:
        """Result of a connection from node `source` to `port` of node `target`."""
        return self.lab[source].run("python3", "-c", CONNECT, self.lab[target].address, str(port)).stdout.strip()

    def new_login(self, name: str, within_s: int = 2) -> Completed:
        """Log in over a connection of its own."""
        own = ("-o", "ControlMaster=no", "-o", "ControlPath=none")
        return self._login(name, *own, "-o", f"ConnectTimeout={within_s}")

    def can_be_reached(self, name: str) -> bool:
        """Its port of SSH is open, and then a new login succeeds, however long a busy machine takes for the keys."""
        try:
            socket.create_connection((self.lab[name].address, 22), timeout=2).close()
        except OSError:
            return False
        return self.new_login(name, within_s=60).ok

    def shared_login(self, name: str) -> Completed:
        """Log in over the connection that pylaunch keeps."""
        return self._login(name)

    def _login(self, name: str, *words: str) -> Completed:
        cluster = load_cluster(self.inventory)
        host = next(host for host in cluster.hosts if host.name == name)
        program, *rest = connector_of(host, cluster.known_hosts).argv(("true",))
        return process.run((program, *words, *rest), timeout_s=120)


def echo(node: LabNode, port: int) -> None:
    """Have `node` send back what comes to `port`."""
    node.run(
        "systemd-run", "--quiet", "--collect", f"--unit=echo-{port}", "--property=Type=notify",
        "/usr/bin/python3", "-c", ECHO, str(port),
    )  # fmt: skip


def is_armed(node: LabNode) -> bool:
    return Path(f"/proc/{node.leader}/root/run/pylaunch/firewall/armed").exists()
