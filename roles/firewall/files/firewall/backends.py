"""Who holds the rules on this host: what decides about its packets already, else we ourselves."""

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
    """What decides about packets here. Raises RefusedError when we cannot speak to it."""
    if is_active("firewalld.service"):
        return Firewalld.that_we_can_speak_to()
    return Ufw() if re.search(r"^ENABLED=yes$", text_of("/etc/ufw/ufw.conf"), re.MULTILINE) else Nftables()


def named(name: str) -> Backend:
    """The backend of that name."""
    return next(each for each in BACKENDS if each.name == name)()
