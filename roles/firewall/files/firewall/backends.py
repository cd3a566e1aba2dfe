"""Choose the backend: the firewall that is active on this host, otherwise a separate nftables table."""

from __future__ import annotations

import re
from typing import Union

from firewalld import Firewalld
from host import RefusedError, is_active, text_of
from nftables import Nftables

Backend = Union[Firewalld, Nftables]
BACKENDS = (Firewalld, Nftables)


def in_charge() -> Backend:
    """Return the active backend. Raises RefusedError if it is not supported: no table can overrule what ufw drops."""
    if is_active("firewalld.service"):
        return Firewalld.supported()
    if re.search(r"^ENABLED=yes$", text_of("/etc/ufw/ufw.conf"), re.MULTILINE):
        raise RefusedError(
            "ufw is enabled, and this role writes no rules for it: open the ports by hand (ufw allow from ADDRESS), or "
            "disable ufw"
        )
    return Nftables()


def named(name: str) -> Backend:
    """Return the backend with this name."""
    return next(each for each in BACKENDS if each.name == name)()
