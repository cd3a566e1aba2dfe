"""Close ports of this host to everybody except members of the cluster. Run as root.

Installed by pylaunch (role firewall).

    arm ──► armed/ ──► confirm ──► confirmed.json and the rules that are loaded at boot
               └─────► restore     by a timer, --within seconds after arm; at the next boot; or by hand

confirm and restore both rename `armed/`, so exactly one of them happens. The rules are a separate nftables table;
nothing else is changed.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
from typing import Any, Dict, Iterator, List, Optional

import table
from host import RefusedError, is_active, is_enabled, own_ssh_port, run, text_of, write
from table import Wanted, bounds

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
    live = table.live()
    if live is None:
        return ["the rules are gone"]
    found = []
    if confirmed["ephemeral"] != wanted.ephemeral:
        found.append("made for ephemeral ports %s, which are %s now" % (confirmed["ephemeral"], wanted.ephemeral))
    elif confirmed["wanted"] != wanted.digest:
        found.append("other rules are in force")
    if live.rules != confirmed["live"]:
        found.append("the live rules are not those that were confirmed")
    found += ["%s is missing among the members" % each for each in wanted.members if each not in live.members]
    found += ["%s is not a member" % each for each in live.members if each not in wanted.members]
    if not found and not table.is_persistent(wanted):
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
    confirmed = json.loads(text_of(CONFIRMED) or "{}")
    live = table.live()
    only_members = live is not None and [live.rules, wanted.digest] == [
        confirmed.get(key) for key in ("live", "wanted")
    ]
    for left in os.listdir(STATE) if os.path.isdir(STATE) else ():
        if left.startswith(("aside-", "confirming-", "restoring-")):
            shutil.rmtree(os.path.join(STATE, left))
    token = secrets.token_hex(8)
    aside = "%s/aside-%s" % (STATE, token)
    os.makedirs(aside, mode=0o700)
    table.snapshot(aside)
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
        table.apply(wanted, only_members=only_members)
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
        table.restore(taken)
        raise RefusedError("the rules cannot be kept, so the old ones were restored: %s" % error) from None
    shutil.rmtree(taken)
    return {"changed": True}


def keep(wanted: Wanted) -> None:
    """Make the active rules persistent, and record them."""
    table.persist(wanted)
    live = table.live()
    if live is None:
        raise RefusedError("the rules are gone: something else on this host removed them")
    write(CONFIRMED, json.dumps({"ephemeral": wanted.ephemeral, "wanted": wanted.digest, "live": live.rules}))


def restore() -> Dict[str, Any]:
    """Undo armed rules that were not confirmed."""
    taken = take_armed("restoring")
    if taken is None:
        return {"changed": False}
    table.restore(taken)
    shutil.rmtree(taken)
    stop_waiting()
    return {"changed": True}


def remove() -> Dict[str, Any]:
    """Remove all rules and the state of this program."""
    restore()
    table.remove()
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
