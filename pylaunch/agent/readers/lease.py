"""Which runs hold the devices and ports of this host, as the kernel's locks tell."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional

from pylaunch.agent import leases
from pylaunch.agent.layout import default_root, open_root


def held(question: Mapping[str, Any]) -> Dict[str, Any]:
    """Question: {"root", "devices": [indexes], "ports": […]}. Holders by index or port (as text); free ones absent."""
    root = open_root(question["root"], make=False).path
    names = {index: leases.device_name(index, root, default_root()) for index in question["devices"]}
    return {
        "devices": {str(index): found for index, found in ((i, _holder(name)) for i, name in names.items()) if found},
        "ports": {
            str(port): found
            for port, found in ((each, _holder(leases.port_name(each))) for each in question["ports"])
            if found
        },
    }


def _holder(name: str) -> Optional[Dict[str, Any]]:
    found = leases.holder(name)
    if found is None:
        return None
    return {"run": found.run, "user": found.user, "since": found.since, "pid": found.pid, "words": str(found)}


READERS = {"lease.holders": held}
