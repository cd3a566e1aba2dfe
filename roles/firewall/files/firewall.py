"""Close ports of this host to everybody except members of the cluster. Run as root.

Installed by pylaunch (role firewall).

    arm ──► armed/ ──► confirm ──► confirmed.nft, which is loaded at boot
               └─────► restore     by a timer, --within seconds after arm; or by hand

confirm and restore both rename `armed/`, so exactly one of them happens. A reboot forgets armed rules and loads the
confirmed ones. The rules are a separate nftables table; nothing else is changed. Accepting a packet in a table does not
overrule other tables; rejecting does.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
from typing import Any, Dict, Iterator, List, Optional

RULES = "/etc/pylaunch/firewall/rules.nft"
"""Script of the role that replaces the whole table in one transaction."""

WANTED = "/etc/pylaunch/firewall/wanted.json"
STATE = "/var/lib/pylaunch/firewall"
CONFIRMED = STATE + "/confirmed.nft"
LIVE = STATE + "/confirmed.live"
"""Digest of the confirmed rules as the kernel lists them."""

RUNTIME = "/run/pylaunch/firewall"
ARMED = RUNTIME + "/armed"
LOAD_UNIT = "pylaunch-firewall.service"
RESTORE_UNIT = "pylaunch-firewall-restore"
LISTENER_UNIT = "pylaunch-firewall-listener"

LISTEN = """\
import socket, sys
family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
listener = socket.create_server(("", int(sys.argv[1])), family=family, dualstack_ipv6=family == socket.AF_INET6)
while True:
    listener.accept()[0].close()
"""

TABLE = "inet pylaunch"
WITHOUT_TABLE = "table %s\ndelete table %s\n" % (TABLE, TABLE)
"""Declaring the table first prevents an error if it does not exist."""

DEADLINE_S = 30


def wanted_rules() -> str:
    """Return the script that the role wrote, with the ephemeral range of this host."""
    return text_of(RULES).replace("@ephemeral@", ephemeral())


def ephemeral() -> str:
    """Return the range of ports that the kernel chooses from."""
    return "-".join(text_of("/proc/sys/net/ipv4/ip_local_port_range").split())


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
        body["elem"] = sorted(body.pop("elem", []))  # The kernel lists them in any order.
        rules.append([kind, body])
    return hashlib.sha256(json.dumps(rules, sort_keys=True).encode()).hexdigest()


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


def differences() -> List[str]:
    """Compare the active rules with the wanted ones; an empty list means no difference."""
    confirmed, live = text_of(CONFIRMED), live_digest()
    if live is None:
        return ["the rules are gone" if confirmed else "not in force"]
    found = []
    if confirmed and confirmed != wanted_rules():
        found.append("other rules, members or ephemeral ports are in force")
    if live != text_of(LIVE):
        found.append("the live rules are not those that were confirmed")
    if not (confirmed and os.path.lexists("/etc/systemd/system/sysinit.target.wants/" + LOAD_UNIT)):
        found.append("would be gone after a reboot")
    return found


def arm(within: int) -> Dict[str, Any]:
    """Apply the wanted rules for `within` seconds. The answer has the token for `confirm` and a port that a member must
    be able to connect to."""
    restore()
    refuse_other_firewalls()
    found = differences()
    if not found:
        return {"changed": False}
    token, rules = secrets.token_hex(8), wanted_rules()
    aside = "%s/aside-%s" % (RUNTIME, token)
    # Confirmed rules that somebody removed from the kernel, because they locked them out, must not come back.
    write(aside + "/before.nft", text_of(CONFIRMED) if live_digest() is not None else "")
    write(aside + "/token", token)
    write(aside + "/rules.nft", rules)
    run_unit(RESTORE_UNIT, ["--on-active=%d" % within, "--timer-property=AccuracySec=100ms"],
             ["-IB", os.path.abspath(__file__), "restore"])  # fmt: skip
    os.rename(aside, ARMED)
    try:
        port = listen(within)
        run(["nft", "--file", "-"], rules)
    except RefusedError:
        restore()
        raise
    return {"changed": True, "differences": found, "token": token, "port": port}


def confirm(token: str) -> Dict[str, Any]:
    """Keep the armed rules. Raises RefusedError if they were already undone, or close the port that SSH connects to."""
    refuse_lockout()
    taken = take_armed("confirming") if text_of(ARMED + "/token") == token else None
    if taken is None:
        raise RefusedError("confirmed too late: the old rules were already restored")
    stop_waiting()
    before = text_of(CONFIRMED)
    try:
        write(CONFIRMED, text_of(taken + "/rules.nft"))
        run(["systemctl", "--quiet", "enable", "--now", LOAD_UNIT])
        live = live_digest()
        if live is None:
            raise RefusedError("something else on this host removed them")
        write(LIVE, live)
    except (RefusedError, OSError) as error:
        load_before(taken)
        if text_of(CONFIRMED) != before:
            write(CONFIRMED, before)
        raise RefusedError("the rules cannot be kept, so the old ones were restored: %s" % error) from None
    shutil.rmtree(taken)
    return {"changed": True}


def restore() -> Dict[str, Any]:
    """Load the rules from before arm again, if others are armed."""
    taken = take_armed("restoring")
    if taken is None:
        return {"changed": False}
    load_before(taken)
    shutil.rmtree(taken)
    stop_waiting()
    return {"changed": True}


def load_before(taken: str) -> None:
    """Load the rules from before arm; without any, or where nft refuses them, remove the table."""
    try:
        run(["nft", "--file", "-"], text_of(taken + "/before.nft") or WITHOUT_TABLE)
    except RefusedError:
        run(["nft", "--file", "-"], WITHOUT_TABLE)


def refuse_lockout() -> None:
    """Raise RefusedError if the rules close the port of the current SSH connection. The controller may be a member, so
    its new login does not show that others can log in."""
    port, wanted = own_ssh_port(), json.loads(text_of(WANTED))
    for each in wanted["member_ports"] if port is not None and port not in wanted["ssh_ports"] else ():
        first, _, last = str(each).replace("ephemeral", ephemeral()).partition("-")
        if int(first) <= port <= int(last or first):
            raise RefusedError(
                "firewall_ssh_ports: SSH connects to port %d, which firewall_member_ports (%s) would close to everybody"
                " except members; got %s" % (port, each, wanted["ssh_ports"])
            )


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


def remove() -> Dict[str, Any]:
    """Remove all rules and the state of this program."""
    restore()
    if os.path.exists("/etc/systemd/system/" + LOAD_UNIT):
        run(["systemctl", "--quiet", "disable", "--now", LOAD_UNIT])
    run(["nft", "--file", "-"], WITHOUT_TABLE)
    shutil.rmtree(STATE, ignore_errors=True)
    return {"changed": True}


def show() -> Dict[str, Any]:
    """Print the differences between the active and the wanted rules."""
    return {"differences": differences()}


def listen(within: int) -> int:
    """Start a listener on a port that only members may open, for `within` seconds. Return the port."""
    closed = [str(each).replace("ephemeral", ephemeral()) for each in json.loads(text_of(WANTED))["member_ports"]]
    for first, _, last in (each.partition("-") for each in reversed(closed)):
        for port in filter(is_free, range(int(last or first), int(first) - 1, -1)):
            run_unit(LISTENER_UNIT, ["--property=RuntimeMaxSec=%d" % within], ["-I", "-c", LISTEN, str(port)])
            return port
    raise RefusedError("every port of %s is in use" % ", ".join(closed))


def is_free(port: int) -> bool:
    """Return True if nothing listens on the port."""
    with contextlib.suppress(OSError), socket.create_server(("", port)):
        return True
    return False


def run_unit(unit: str, options: List[str], words: List[str]) -> None:
    """Have systemd run Python as a unit."""
    run(["systemd-run", "--quiet", "--collect", "--unit=" + unit, *options, "/usr/bin/python3", *words])


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Hold the lock that keeps arm, confirm and restore from running at the same time."""
    os.makedirs(RUNTIME, mode=0o700, exist_ok=True)
    with open(RUNTIME + "/lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def take_armed(name: str) -> Optional[str]:
    """Rename the armed directory, so that only one caller gets it. Return None if nothing is armed."""
    taken = "%s/%s-%s" % (RUNTIME, name, secrets.token_hex(4))
    try:
        os.rename(ARMED, taken)
    except FileNotFoundError:
        return None
    return taken


def stop_waiting() -> None:
    """Stop the timer and the listener. The result is ignored, because they may have ended already."""
    subprocess.run(
        ["systemctl", "--quiet", "stop", RESTORE_UNIT + ".timer", LISTENER_UNIT], stderr=subprocess.DEVNULL, check=False
    )


class RefusedError(Exception):
    """The action is refused; the message is for the user."""


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
