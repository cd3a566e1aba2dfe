"""`pylaunch trust`: show the host keys of the inventory's hosts and, if the person agrees, accept them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from pylaunch.cli import console
from pylaunch.cli.flags import options
from pylaunch.cli.views import document
from pylaunch.errors import ClusterNotReadyError, UsageError
from pylaunch.inventory import load_cluster
from pylaunch.model.cluster import Connection, Host
from pylaunch.model.hostset import fold
from pylaunch.transport import host_keys
from pylaunch.transport.host_keys import Answered, Silent
from pylaunch.transport.known_hosts import HostKey, keys_for, read_known_hosts, write_known_hosts


@dataclass(frozen=True)
class Shown:
    """The key a host showed, next to the keys that were trusted for it before."""

    host: str
    key: HostKey
    before: tuple[HostKey, ...]

    @property
    def state(self) -> str:
        """How the key stands to what was trusted."""
        if not self.before:
            return "new"
        return "trusted" if self.key in self.before else "changed"


@click.command()
@options.inventory
@options.limit
@click.option("--replace", is_flag=True, help="Accept a key that differs from the one trusted so far.")
@click.option("-y", "--yes", is_flag=True, help="Accept without asking.")
@options.as_json
def command(inventory: Path | None, limit: str | None, replace: bool, yes: bool, as_json: bool) -> None:
    """Learn the host keys of the inventory's hosts.

    Shows the fingerprint of every host and asks before it accepts them. Compare them with what the hosts themselves
    say: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub. Accepted keys go into .pylaunch/known_hosts next to the
    inventory; a key that differs from the one trusted so far is refused unless --replace is given.
    """
    cluster = load_cluster(inventory, limit=limit)
    remote = [host for host in cluster.hosts if host.connection is Connection.SSH]
    if cluster.known_hosts is None or not remote:
        raise UsageError("no host of the inventory is reached over SSH", hint="pylaunch trust -i INVENTORY")
    project, own = Path(cluster.known_hosts), Path.home() / ".ssh" / "known_hosts"
    trusted = "\n".join((read_known_hosts(project), read_known_hosts(own)))
    answers = host_keys.scan(remote, lambda place: keys_for(trusted, place))
    shown = [
        Shown(answer.host, answer.key, keys_for(trusted, answer.key.place))
        for answer in answers
        if isinstance(answer, Answered)
    ]
    silent = [answer for answer in answers if isinstance(answer, Silent)]
    content = _data(remote, shown, silent)
    if as_json:
        document.show(content)
    else:
        _show(shown)

    accepted = [each for each in shown if each.state == "new" or (each.state == "changed" and replace)]
    if as_json and accepted and not yes:
        for each in accepted:
            console.say(f"{each.host}  {each.key.place}  {each.key.kind}  {each.key.fingerprint}  {each.state}")
    if accepted and (yes or _agreed(accepted)):
        write_known_hosts(project, [each.key for each in accepted])
        content["accepted"] = [each.host for each in accepted]
        console.say(f"accepted {_count(accepted)}: {fold(each.host for each in accepted)} → {project}")
        for place in sorted(
            {key.place for each in accepted for key in keys_for(read_known_hosts(own), each.key.place)}
        ):
            console.say(f"the old key is trusted still, by your own file; remove it with: ssh-keygen -R '{place}'")
    elif accepted:
        raise ClusterNotReadyError(
            f"nothing was accepted: {fold(each.host for each in accepted)} cannot be connected to",
            hint="compare the fingerprints with those on the hosts, then run pylaunch trust again",
        )
    elif shown and all(each.state == "trusted" for each in shown):
        console.say(f"nothing to accept: {_count(shown)} trusted already")
    _complain(silent, [each for each in shown if each.state == "changed" and not replace])


def _show(shown: Sequence[Shown]) -> None:
    if shown:
        rows = [[each.host, each.key.place, each.key.kind, each.key.fingerprint, each.state] for each in shown]
        console.table(["host", "address", "kind", "fingerprint", "state"], rows)


def _data(remote: Sequence[Host], shown: Sequence[Shown], silent: Sequence[Silent]) -> dict[str, object]:
    known = {
        each.host: {
            "place": each.key.place,
            "kind": each.key.kind,
            "fingerprint": each.key.fingerprint,
            "state": each.state,
            "trusted_before": [key.fingerprint for key in each.before],
        }
        for each in shown
    }
    reasons = {each.host: each.reason for each in silent}
    return {"accepted": [], "hosts": document.hosts([host.name for host in remote], reasons, known)}


def _agreed(accepted: Sequence[Shown]) -> bool:
    if not sys.stdin.isatty():
        raise UsageError(
            f"{_count(accepted)} to accept, and no terminal to ask on",
            hint="compare the fingerprints, then run it again with --yes",
        )
    return console.confirm(f"accept {_count(accepted)}?")


def _complain(silent: Sequence[Silent], changed: Sequence[Shown]) -> None:
    """One error for all hosts that are not trusted now."""
    evidence = [f"{each.host}  {each.reason}" for each in silent]
    for each in changed:
        before = ", ".join(f"{key.fingerprint} ({key.kind})" for key in each.before)
        evidence.append(f"{each.host}  trusted so far: {before}; shows now: {each.key.fingerprint} ({each.key.kind})")
    if not evidence:
        return
    what = [
        f"no key from {fold(each.host for each in silent)}" if silent else "",
        f"the key changed of {fold(each.host for each in changed)}" if changed else "",
    ]
    names = fold(each.host for each in changed)
    raise ClusterNotReadyError(
        " and ".join(part for part in what if part),
        evidence=evidence,
        hint=f"if they were reinstalled, compare the fingerprints and run: pylaunch trust --replace --limit {names}"
        if changed
        else "see that the hosts are up and that ansible_host and ansible_port are right, then run it again",
    )


def _count(keys: Sequence[Shown]) -> str:
    return f"{len(keys)} host keys" if len(keys) != 1 else "1 host key"
