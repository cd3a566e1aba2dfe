"""Learn the host keys of hosts into the known_hosts file of the project.

offer = scan(cluster)                 asks every host for its key; trusts none
accept(offer.acceptable(…), …)        writes those that the person agreed to
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pylaunch.base.dataclass import dataclass
from pylaunch.errors import ClusterNotReadyError, UsageError
from pylaunch.model.cluster import Cluster, Connection, Host
from pylaunch.model.hostset import fold
from pylaunch.transport.trust import host_keys
from pylaunch.transport.trust.host_keys import Answered, Silent
from pylaunch.transport.trust.known_hosts import HostKey, keys_for, read_known_hosts, write_known_hosts


@dataclass(frozen=True)
class OfferedKey:
    """The key that a host presents, and the keys that were trusted for it before."""

    host: str
    key: HostKey
    before: tuple[HostKey, ...]

    @property
    def state(self) -> str:
        """One of "new", "trusted" or "changed"."""
        if not self.before:
            return "new"
        return "trusted" if self.key in self.before else "changed"


@dataclass(frozen=True)
class KeyOffer:
    """Keys of all hosts that are reached over SSH."""

    hosts: tuple[Host, ...]
    keys: tuple[OfferedKey, ...]
    silent: tuple[Silent, ...]
    """Hosts that presented no key."""

    file: Path
    """The known_hosts file of the project."""

    def acceptable(self, *, replace: bool) -> tuple[OfferedKey, ...]:
        """Return new keys, and with `replace` those that differ from a trusted one."""
        return tuple(each for each in self.keys if each.state == "new" or (each.state == "changed" and replace))

    def raise_for_untrusted(self, *, replace: bool) -> None:
        """Raises one ClusterNotReadyError for all hosts without a trusted key."""
        changed = [each for each in self.keys if each.state == "changed" and not replace]
        evidence = [f"{each.host}  {each.reason}" for each in self.silent]
        for each in changed:
            before = ", ".join(f"{key.fingerprint} ({key.kind})" for key in each.before)
            evidence.append(
                f"{each.host}  trusted so far: {before}; shows now: {each.key.fingerprint} ({each.key.kind})"
            )
        if not evidence:
            return
        what = [
            f"no key from {fold(each.host for each in self.silent)}" if self.silent else "",
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


def scan(cluster: Cluster) -> KeyOffer:
    """Ask every host of `cluster` for its key. Raises UsageError when none is reached over SSH."""
    remote = tuple(host for host in cluster.hosts if host.connection is Connection.SSH)
    if cluster.known_hosts is None or not remote:
        raise UsageError("no host of the inventory is reached over SSH", hint="pylaunch trust -i INVENTORY")
    project = Path(cluster.known_hosts)
    trusted = "\n".join((read_known_hosts(project), read_known_hosts(_own_file())))
    answers = host_keys.scan(remote, lambda place: keys_for(trusted, place))
    keys = tuple(
        OfferedKey(answer.host, answer.key, keys_for(trusted, answer.key.place))
        for answer in answers
        if isinstance(answer, Answered)
    )
    return KeyOffer(remote, keys, tuple(answer for answer in answers if isinstance(answer, Silent)), project)


def accept(keys: Sequence[OfferedKey], file: Path) -> tuple[str, ...]:
    """Write `keys` to `file`; return the places whose old key the user's own file still trusts."""
    write_known_hosts(file, [each.key for each in keys])
    own = read_known_hosts(_own_file())
    return tuple(sorted({key.place for each in keys for key in keys_for(own, each.key.place)}))


def _own_file() -> Path:
    return Path.home() / ".ssh" / "known_hosts"
