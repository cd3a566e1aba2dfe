"""Host keys that hosts present: the table, the question, and the result of accepting them."""

import sys
from collections.abc import Sequence

from pylaunch.errors import UsageError
from pylaunch.model.cluster import Cluster
from pylaunch.model.hostset import fold
from pylaunch.model.text.argv import quoted
from pylaunch.terminal import console
from pylaunch.transport.host_keys import KeyOffer, OfferedKey, accept, scan_keys


def scanned(cluster: Cluster) -> KeyOffer:
    """Return the keys that the hosts present. Raises UsageError when none is reached over SSH."""
    with console.working(f"asking {fold(cluster.names)} for host keys"):
        return scan_keys(cluster)


def show(shown: Sequence[OfferedKey]) -> None:
    """Print the keys as a table on stdout."""
    if shown:
        rows = [[each.host, each.key.place, each.key.kind, each.key.fingerprint, each.state] for each in shown]
        console.table(["host", "address", "kind", "fingerprint", "state"], rows)


def agreed(keys: Sequence[OfferedKey]) -> bool:
    """Ask whether to accept `keys`. Raises UsageError without a terminal."""
    if not sys.stdin.isatty():
        raise UsageError(
            f"{counted(keys)} to accept, and no terminal to ask on",
            hint="compare the fingerprints, then run it again with --yes",
        )
    return console.confirm(f"accept {counted(keys)}?")


def accept_and_say(keys: Sequence[OfferedKey], offer: KeyOffer) -> None:
    """Write `keys` to the known_hosts file of the project, and print that."""
    still_trusted = accept(keys, offer.file)
    console.say(f"accepted {counted(keys)}: {fold(each.host for each in keys)} → {offer.file}")
    for place in still_trusted:
        console.say(f"your own known_hosts still trusts the old key; remove it with: ssh-keygen -R {quoted((place,))}")


def counted(keys: Sequence[OfferedKey]) -> str:
    """Return the number of keys as text."""
    return f"{len(keys)} host keys" if len(keys) != 1 else "1 host key"
