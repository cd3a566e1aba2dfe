"""Identity of this host: its name, its distribution and the capabilities that its processes can have."""

import re

from pylaunch.agent.shared.text import text_of, text_or_none
from pylaunch.protocol.readings.roles import DistributionReading


def distribution() -> DistributionReading:
    """Return the name of this host's distribution, its id and the ids of those it is like, from os-release."""
    return read_os_release(text_or_none("/etc/os-release") or "")


def read_os_release(text: str) -> DistributionReading:
    """Return the same from the text of os-release(5)."""
    found = dict(re.findall(r"""^([A-Z_]+)=["']?(.*?)["']?$""", text, re.MULTILINE))
    ids: list[str] = [found.get("ID", "linux"), *found.get("ID_LIKE", "").split()]
    return {"name": found.get("PRETTY_NAME", ids[0]), "ids": ids}


def bounding_capabilities() -> int:
    """Bit mask of the capabilities that the first process of this host may ever have."""
    for line in text_of("/proc/1/status").splitlines():
        if line.startswith("CapBnd:"):
            return int(line.split()[1], 16)
    return 0
