"""System of a host, and the Python distributions of its ranks."""

from __future__ import annotations

import os
from typing import Dict, Optional

from pylaunch.agent.probe.registry import reader
from pylaunch.agent.shared import essentials
from pylaunch.agent.shared.text import text_of

Group = Dict[str, Optional[str]]

DEADLINE_S = 8.0


@reader("host_facts.system", DEADLINE_S)
def system(_question: None) -> Group:
    """Return distribution, kernel, time zone and locale."""
    release = dict(line.split("=", 1) for line in text_of("/etc/os-release").splitlines() if "=" in line)
    return {
        "os": release.get("PRETTY_NAME", "unknown").strip('"'),
        "kernel": os.uname().release,
        "architecture": os.uname().machine,
        "timezone": timezone(),
        "locale": locale(),
    }


def timezone() -> str:
    """Return the name of the time zone; UTC if none was ever set."""
    if not os.path.lexists("/etc/localtime"):
        return "UTC"
    return os.path.realpath("/etc/localtime").partition("/zoneinfo/")[2] or "a copy in /etc/localtime"


def locale() -> str | None:
    """Return LANG of a login from the file of the distribution; None if it is not set."""
    for path in ("/etc/locale.conf", "/etc/default/locale"):
        for line in text_of(path).splitlines() if os.path.exists(path) else ():
            if line.startswith("LANG="):
                return line[len("LANG=") :].strip('"')
    return None


@reader("host_facts.distributions", DEADLINE_S)
def distributions(python: str) -> Group:
    """Return every Python distribution in the environment of the interpreter `python`."""
    try:
        installed = essentials.distributions(python)
    except FileNotFoundError:
        return {}
    return {f"distribution {name}": version for name, version in installed.items()}
