"""IP addresses. Pure."""

from ipaddress import ip_address


def is_address(text: str) -> bool:
    """Return True for an IP address, with or without an interface (fe80::1%eth0), and False for a name."""
    try:
        ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return True
