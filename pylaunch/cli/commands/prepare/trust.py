"""`pylaunch trust`: show the host keys of the inventory's hosts and accept them on request."""

from pathlib import Path

import click

from pylaunch.errors import ClusterNotReadyError
from pylaunch.inventory import load_cluster
from pylaunch.model.hostset import fold
from pylaunch.terminal import console, document, options
from pylaunch.terminal.views import host_keys
from pylaunch.transport.host_keys import KeyOffer


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
    offer = host_keys.scanned(load_cluster(inventory, limit=limit))
    content = _data(offer)
    if as_json:
        document.show(content)
    else:
        host_keys.show(offer.keys)
    acceptable = offer.acceptable(replace=replace)
    if as_json and acceptable and not yes:
        for each in acceptable:
            console.say(f"{each.host}  {each.key.place}  {each.key.kind}  {each.key.fingerprint}  {each.state}")
    if acceptable and (yes or host_keys.agreed(acceptable)):
        host_keys.accept_and_say(acceptable, offer)
        content["accepted"] = [each.host for each in acceptable]
    elif acceptable:
        raise ClusterNotReadyError(
            f"nothing was accepted: {fold(each.host for each in acceptable)} cannot be connected to",
            hint="compare the fingerprints with those on the hosts, then: pylaunch trust",
        )
    elif offer.keys and all(each.state == "trusted" for each in offer.keys):
        console.say(f"nothing to accept: {host_keys.counted(offer.keys)} trusted already")
    offer.raise_for_untrusted(replace=replace)


def _data(offer: KeyOffer) -> dict[str, object]:
    known = {
        each.host: {
            "place": each.key.place,
            "kind": each.key.kind,
            "fingerprint": each.key.fingerprint,
            "state": each.state,
            "trusted_before": [key.fingerprint for key in each.before],
        }
        for each in offer.keys
    }
    reasons = {each.host: each.reason for each in offer.silent}
    return {"accepted": [], "hosts": document.hosts([host.name for host in offer.hosts], reasons, known)}
