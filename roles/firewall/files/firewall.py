"""Close ports of this host to everybody except members of the cluster. Run as root.

Installed by pylaunch (role firewall).

    arm ──► armed/ ──► confirm ──► confirmed.json and the rules that are loaded at boot
               └─────► restore     by a timer, --within seconds after arm; at the next boot; or by hand

confirm and restore both rename `armed/`, so exactly one of them happens. The rules are a separate nftables table;
nothing else is changed. Accepting a packet in a table does not overrule other tables; rejecting does.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import ipaddress
import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

WANTED = "/etc/pylaunch/firewall/wanted.json"
RULES = "/etc/pylaunch/firewall/rules.nft"
STATE = "/var/lib/pylaunch/firewall"
ARMED = STATE + "/armed"
CONFIRMED = STATE + "/confirmed.json"
RESTORE_UNIT = "pylaunch-firewall-restore.service"
RESTORE_TIMER = "pylaunch-firewall-restore.timer"
LISTENER_UNIT = "pylaunch-firewall-listener.service"

LISTEN = """\
import os, socket, sys
family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
listener = socket.create_server(("", int(sys.argv[1])), family=family, dualstack_ipv6=family == socket.AF_INET6)
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
    notify.sendto(b"READY=1", os.environ["NOTIFY_SOCKET"])
while True:
    listener.accept()[0].close()
"""

TABLE = "inet pylaunch"
WITHOUT_TABLE = "table %s\ndelete table %s\n" % (TABLE, TABLE)
"""Declaring the table first prevents an error if it does not exist."""

SETS = {4: "members4", 6: "members6"}
"""IP version to the set with the members that have an address of it."""

BOOT_SCRIPT = "/var/lib/pylaunch/firewall/confirmed.nft"
LOAD_UNIT = "pylaunch-firewall.service"

DEADLINE_S = 30


class Wanted(NamedTuple):
    """Rules that the role wants on this host, with its ephemeral range inserted."""

    members: List[str]
    closed: List[str]
    """TCP ports that only members may open: `29500` or `29400-29599`."""

    ssh_ports: List[int]
    ephemeral: str
    rules: str

    @property
    def script(self) -> str:
        """A script that replaces the whole table in one transaction."""
        return WITHOUT_TABLE + self.rules + "".join(_elements(self.members))


def bounds(ports: str) -> Tuple[int, int]:
    """Return the first and last port of `29500` or `29400-29599`."""
    first, _, last = ports.partition("-")
    return int(first), int(last or first)


def live_digest() -> Optional[str]:
    """Return a digest of the table in the kernel; None if it does not exist."""
    if "table " + TABLE not in run(["nft", "list", "tables"]).splitlines():
        return None
    rules = []
    for entry in json.loads(run(["nft", "--json", "list", "table", *TABLE.split()]))["nftables"]:
        ((kind, body),) = entry.items()
        if kind == "metainfo":
            continue
        body.pop("handle", None)
        # The kernel lists elements in any order; those of an interval set are objects.
        body["elem"] = sorted(body.pop("elem", []), key=json.dumps)
        rules.append([kind, body])
    return hashlib.sha256(json.dumps(rules, sort_keys=True).encode()).hexdigest()


def snapshot(directory: str) -> None:
    """Write a script that restores the current table."""
    text = "" if live_digest() is None else run(["nft", "--stateless", "list", "table", *TABLE.split()])
    write(directory + "/before.nft", WITHOUT_TABLE + text)


def restore_table(directory: str) -> None:
    """Run the script of `snapshot`."""
    run(["nft", "--file", directory + "/before.nft"])


def remove_table() -> None:
    """Remove the table."""
    if os.path.exists("/etc/systemd/system/" + LOAD_UNIT):
        run(["systemctl", "--quiet", "disable", "--now", LOAD_UNIT])
    run(["nft", "--file", "-"], WITHOUT_TABLE)


def _elements(members: List[str]) -> Iterator[str]:
    for version, name in SETS.items():
        elements = [each for each in members if ipaddress.ip_address(each).version == version]
        if elements:
            yield "add element %s %s { %s }\n" % (TABLE, name, ", ".join(elements))


def read_wanted() -> Wanted:
    """Read the rules that the role wrote, and insert this host's ephemeral range."""
    asked = json.loads(text_of(WANTED))
    ephemeral = "-".join(text_of("/proc/sys/net/ipv4/ip_local_port_range").split())
    closed = [str(each).replace("ephemeral", ephemeral) for each in asked["member_ports"]]
    rules = text_of(RULES).replace("@ephemeral@", ephemeral)
    return Wanted(sorted(set(asked["members"])), closed, asked["ssh_ports"], ephemeral, rules)


def refuse_other_firewalls() -> None:
    """Raise RefusedError where another firewall decides: no table can overrule what that one drops."""
    if is_active("firewalld.service"):
        raise RefusedError(
            "firewalld runs, and this role writes no rules for it: open the ports by hand (firewall-cmd --permanent"
            " --zone=trusted --add-source=ADDRESS, then firewall-cmd --reload) and set firewall_enabled to false for"
            " this host, or disable firewalld"
        )
    if re.search(r"^ENABLED=yes$", text_of("/etc/ufw/ufw.conf"), re.MULTILINE):
        raise RefusedError(
            "ufw is enabled, and this role writes no rules for it: open the ports by hand (ufw allow from ADDRESS) and"
            " set firewall_enabled to false for this host, or disable ufw"
        )


def differences(wanted: Wanted) -> List[str]:
    """Compare the active rules with `wanted`; an empty list means no difference."""
    if not os.path.exists(CONFIRMED):
        return ["not in force"]
    confirmed = json.loads(text_of(CONFIRMED))
    live = live_digest()
    if live is None:
        return ["the rules are gone"]
    found = []
    if confirmed["ephemeral"] != wanted.ephemeral:
        found.append("made for ephemeral ports %s, which are %s now" % (confirmed["ephemeral"], wanted.ephemeral))
    elif confirmed["script"] != wanted.script:
        found.append("other rules or members are in force")
    if live != confirmed["live"]:
        found.append("the live rules are not those that were confirmed")
    if not found and not (text_of(BOOT_SCRIPT) == wanted.script and is_enabled(LOAD_UNIT)):
        found.append("would be gone after a reboot")
    return found


def arm(within: int) -> Dict[str, Any]:
    """Apply the wanted rules for `within` seconds. The answer has the token for `confirm` and a port that a member must
    be able to connect to."""
    restore()
    refuse_other_firewalls()
    wanted = read_wanted()
    found = differences(wanted)
    if not found:
        return {"changed": False}
    refuse_lockout(wanted)
    for left in os.listdir(STATE) if os.path.isdir(STATE) else ():
        if left.startswith(("aside-", "confirming-", "restoring-")):
            shutil.rmtree(os.path.join(STATE, left))
    token = secrets.token_hex(8)
    aside = "%s/aside-%s" % (STATE, token)
    os.makedirs(aside, mode=0o700)
    snapshot(aside)
    write(aside + "/armed.json", json.dumps({"token": token, "wanted": wanted._asdict()}))
    # The timer starts a unit by its name, so restoring does not depend on how this program was started.
    if not is_enabled(RESTORE_UNIT):
        run(["systemctl", "--quiet", "enable", RESTORE_UNIT])
    run(
        [
            *("systemd-run", "--quiet", "--on-active=%d" % within, "--timer-property=AccuracySec=100ms"),
            "--unit=" + RESTORE_UNIT,
        ]
    )
    os.rename(aside, ARMED)
    try:
        port = listen(wanted, within)
        run(["nft", "--check", "--file", "-"], wanted.script)
        run(["nft", "--file", "-"], wanted.script)
    except RefusedError:
        restore()
        raise
    return {"changed": True, "differences": found, "token": token, "port": port}


def confirm(token: str) -> Dict[str, Any]:
    """Keep the armed rules. Raises RefusedError if they were already undone."""
    if not os.path.exists(ARMED) or json.loads(text_of(ARMED + "/armed.json"))["token"] != token:
        raise RefusedError("confirmed too late: the old rules were already restored")
    taken = take_armed("confirming")
    if taken is None:
        raise RefusedError("confirmed too late: the old rules were already restored")
    armed = json.loads(text_of(taken + "/armed.json"))
    stop_waiting()
    try:
        keep(Wanted(**armed["wanted"]))
    except (RefusedError, OSError) as error:
        restore_table(taken)
        raise RefusedError("the rules cannot be kept, so the old ones were restored: %s" % error) from None
    shutil.rmtree(taken)
    return {"changed": True}


def keep(wanted: Wanted) -> None:
    """Load the active rules at every boot, and record them."""
    write(BOOT_SCRIPT, wanted.script)
    run(["systemctl", "--quiet", "enable", "--now", LOAD_UNIT])
    live = live_digest()
    if live is None:
        raise RefusedError("the rules are gone: something else on this host removed them")
    write(CONFIRMED, json.dumps({"ephemeral": wanted.ephemeral, "script": wanted.script, "live": live}))


def restore() -> Dict[str, Any]:
    """Undo armed rules that were not confirmed."""
    taken = take_armed("restoring")
    if taken is None:
        return {"changed": False}
    restore_table(taken)
    shutil.rmtree(taken)
    stop_waiting()
    return {"changed": True}


def remove() -> Dict[str, Any]:
    """Remove all rules and the state of this program."""
    restore()
    remove_table()
    if os.path.exists("/etc/systemd/system/" + RESTORE_UNIT):
        run(["systemctl", "--quiet", "disable", RESTORE_UNIT])
    shutil.rmtree(STATE, ignore_errors=True)
    return {"changed": True}


def show() -> Dict[str, Any]:
    """Print the differences between the active and the wanted rules."""
    return {"differences": differences(read_wanted())}


def refuse_lockout(wanted: Wanted) -> None:
    """Raise RefusedError if the rules would close the port of the current SSH connection."""
    port = own_ssh_port()
    if port is None or port in wanted.ssh_ports:
        return
    for each in wanted.closed:
        first, last = bounds(each)
        if first <= port <= last:
            raise RefusedError(
                "firewall_ssh_ports: SSH connects to port %d, which firewall_member_ports (%s) would close; got %s"
                % (port, each, wanted.ssh_ports)
            )


def listen(wanted: Wanted, within: int) -> int:
    """Start a listener on a port that only members may open, for `within` seconds. Return the port."""
    for each in reversed(wanted.closed):
        first, last = bounds(each)
        for port in range(last, first - 1, -1):
            with contextlib.suppress(OSError), socket.create_server(("", port)):
                break
        else:
            continue
        break
    else:
        raise RefusedError("every port of %s is in use" % ", ".join(wanted.closed))
    run(
        [
            *("systemd-run", "--quiet", "--collect", "--unit=" + LISTENER_UNIT, "--property=Type=notify"),
            "--description=Accepts connections of a member until the firewall rules are confirmed",
            *("--property=RuntimeMaxSec=%d" % within, "/usr/bin/python3", "-I", "-c", LISTEN, str(port)),
        ]
    )
    return port


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Hold the lock that keeps arm, confirm and restore from running at the same time."""
    os.makedirs(STATE, mode=0o700, exist_ok=True)
    with open(STATE + "/lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def take_armed(name: str) -> Optional[str]:
    """Rename the armed directory, so that only one caller gets it. Return None if nothing is armed."""
    taken = "%s/%s-%s" % (STATE, name, secrets.token_hex(4))
    try:
        os.rename(ARMED, taken)
    except FileNotFoundError:
        return None
    return taken


def stop_waiting() -> None:
    """Stop the timer and the listener. The result is ignored, because they may have ended already."""
    subprocess.run(
        ["systemctl", "--quiet", "stop", RESTORE_TIMER, LISTENER_UNIT], stderr=subprocess.DEVNULL, check=False
    )


class RefusedError(Exception):
    """The action is refused; the message is for the user."""


def is_enabled(unit: str) -> bool:
    """Return True if systemd starts the unit at boot."""
    targets = ("sysinit.target.wants", "multi-user.target.wants")
    return any(os.path.lexists("/etc/systemd/system/%s/%s" % (target, unit)) for target in targets)


def is_active(unit: str) -> bool:
    """Return True if the unit is active."""
    return subprocess.run(["systemctl", "--quiet", "is-active", unit], check=False).returncode == 0


def run(words: List[str], stdin: str = "") -> str:
    """Run a program and return its stdout. Raises RefusedError if it fails."""
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
    try:
        ended = subprocess.run(
            words, input=stdin.encode(), capture_output=True, timeout=DEADLINE_S, check=False, env=environment
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RefusedError(str(error)) from None
    if ended.returncode != 0:
        message = (ended.stderr or ended.stdout).decode("utf-8", "replace").strip()
        raise RefusedError("%s: %s" % (" ".join(words[:3]), message))
    return ended.stdout.decode("utf-8", "replace")


def write(path: str, text: str) -> None:
    """Write a file atomically."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
        os.fsync(file.fileno())
    os.rename(path + ".new", path)


def text_of(path: str) -> str:
    """Return the content of a file, or an empty string if it does not exist."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def own_ssh_port() -> Optional[int]:
    """Return the local port of the SSH connection that runs this process.

    sudo removes the variable from our environment, so the environments of all ancestors are read.
    """
    pid = os.getpid()
    while pid > 1:
        with open("/proc/%d/environ" % pid, "rb") as file:
            for variable in file.read().split(b"\0"):
                if variable.startswith(b"SSH_CONNECTION="):
                    return int(variable.split()[-1])
        pid = int(text_of("/proc/%d/stat" % pid).rpartition(")")[2].split()[1])
    return None


def main() -> int:
    """Run the verb of the command line and print its answer as a JSON object on stdout."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("show", help=show.__doc__)
    verbs.add_parser("arm", help=arm.__doc__).add_argument("--within", type=int, default=60, metavar="SECONDS")
    verbs.add_parser("confirm", help=confirm.__doc__).add_argument("token")
    verbs.add_parser("restore", help=restore.__doc__)
    verbs.add_parser("remove", help=remove.__doc__)
    asked = vars(parser.parse_args())
    os.umask(0o022)  # The parent of STATE also has the manifest, which everybody may read.
    verb = {"show": show, "arm": arm, "confirm": confirm, "restore": restore, "remove": remove}[asked.pop("verb")]
    try:
        with contextlib.nullcontext() if verb is show else alone():
            print(json.dumps(verb(**asked)))
    except RefusedError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
