"""Choose the backend: the firewall that is active on this host, otherwise a separate nftables table."""

from __future__ import annotations

import re
from typing import Union

from firewalld import Firewalld
from host import is_active, text_of
from nftables import Nftables
from ufw import Ufw

Backend = Union[Firewalld, Ufw, Nftables]
BACKENDS = (Firewalld, Ufw, Nftables)


def in_charge() -> Backend:
    """Return the active backend. Raises RefusedError if it is not supported."""
    if is_active("firewalld.service"):
        return Firewalld.supported()
    return Ufw() if re.search(r"^ENABLED=yes$", text_of("/etc/ufw/ufw.conf"), re.MULTILINE) else Nftables()


def named(name: str) -> Backend:
    """Return the backend with this name."""
    return next(each for each in BACKENDS if each.name == name)()
