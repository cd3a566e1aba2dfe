"""Hosts named on the command line instead of in a file: Ansible's host list, `gpu01,gpu02,`.

A host list has no directory of its own, so the project directory `.pylaunch` is in the working directory.
"""

import re
from pathlib import Path

from pylaunch.model.hostset import expand

_HOST = re.compile(r"(?!-)[\w.:-]+|\[[\da-fA-F:.]+\]:\d+")
_BARE = re.compile(r"\[[\da-fA-F:.]+\]")
"""An IPv6 address in brackets without a port, which needs none."""


def is_host_list(source: Path) -> bool:
    """Return whether `source` is a host list, by Ansible's rule: it has a comma, and there is no file of that name."""
    text = str(source)
    return "," in text and "/" not in text and not source.exists()


def hosts_in_list(source: Path) -> tuple[str, ...]:
    """Return the hosts of a host list, in its order. Raises ValueError for an invalid name."""
    words = (name.strip() for name in str(source).split(",") if name.strip())
    names = tuple(dict.fromkeys(word[1:-1] if _BARE.fullmatch(word) else word for word in words))
    if not names:
        raise ValueError("no host is named")
    for name in names:
        if "@" in name:
            raise ValueError(
                f"{name!r}: the user belongs in ~/.ssh/config, or in an inventory, which pylaunch init writes"
            )
        if "%" in name:
            raise ValueError(
                f"{name!r}: the zone after % names an interface of this machine; other hosts cannot use it"
            )
        if not _HOST.fullmatch(name):
            raise ValueError(f"{name!r} is not a host name")
    return names


def host_list(hostset: str) -> str:
    """Return the host list of a host set such as `gpu[01-02],x`. Raises ValueError for an invalid one."""
    return "".join(f"{name}," for name in hosts_in_list(Path(",".join(expand(hostset)) + ",")))
