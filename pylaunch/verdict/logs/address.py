"""Addresses in texts, and the kinds of them that other nodes cannot reach. Pure."""

import ipaddress
import re

_ADDRESS = re.compile(r"\[?((?:\d{1,3}\.){3}\d{1,3}|(?:::ffff:)?(?:\d{1,3}\.){3}\d{1,3}|fe80:[0-9a-fA-F:]{2,40}|::1)\b")
_BRIDGES = [ipaddress.ip_network(each) for each in ("172.17.0.0/16", "172.18.0.0/16", "192.168.122.0/24")]


def addresses(text: str) -> list[str]:
    """Return the addresses in a text."""
    return _ADDRESS.findall(text)


def kind_of_address(text: str) -> str:
    """Return "loopback", "bridge" (docker0, virbr0), "link-local", "" for any other, or "name" for a host name."""
    plain = text.strip("[]").removeprefix("::ffff:").split("%")[0]
    if plain in ("localhost", "localhost.localdomain", "ip6-localhost"):
        return "loopback"
    try:
        address = ipaddress.ip_address(plain)
    except ValueError:
        return "name"
    if address.is_loopback:
        return "loopback"
    if address.is_link_local:
        return "link-local"
    return "bridge" if any(address in network for network in _BRIDGES if address.version == network.version) else ""
