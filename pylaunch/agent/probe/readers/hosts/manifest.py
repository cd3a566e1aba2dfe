"""The manifest of what roles manage on this host, compared with the host."""

from __future__ import annotations

import json
import os
import re

from pylaunch.agent.probe.managed import MOST_CHARACTERS, differences, read_manifest
from pylaunch.agent.probe.registry import reader
from pylaunch.agent.shared.programs import run_as_root
from pylaunch.protocol.readings.hosts import ManifestEntry, ManifestQuestion

MANIFEST = "/var/lib/pylaunch/manifest.json"
PROGRAMS = "/usr/local/lib/pylaunch"
"""Directory of root, with a program for each role whose state the manifest cannot record, such as firewall rules."""

MOST = 100
"""Differences and notes of a role that are reported."""


@reader("manifest.roles", 50.0)
def roles(question: ManifestQuestion) -> dict[str, ManifestEntry]:
    """Return for each role what it was given, its notes, and how the host differs from its record.

    The manifest of a user who may not become root is in the root of the environments.
    """
    entries = {} if question["is_privileged"] is False else read_manifest(MANIFEST)
    if not question["is_privileged"]:
        entries.update(read_manifest(f"{question['env_root']}/manifest.json"))
    return {
        role[:MOST_CHARACTERS]: {
            # A run of the role that did not end is to be repeated.
            "inputs": "" if "unfinished" in entry else entry["inputs"][:MOST_CHARACTERS],
            "notes": [note[:MOST_CHARACTERS] for note in entry["notes"][:MOST]],
            "differences": differences(entry)[:MOST],
            "reported": reported(role, question["sudo_password"]),
        }
        for role, entry in entries.items()
    }


def reported(role: str, sudo_password: str | None) -> list[str] | str:
    """Return the differences that the program of `role` reports as root, [] without one; why it cannot be asked."""
    program = os.path.join(PROGRAMS, role)
    if not re.fullmatch("[a-z_]+", role) or not os.path.isfile(program):
        return []
    try:
        output = run_as_root(["/usr/bin/python3", "-IB", program, "show"], sudo_password)
        # Before its first answer, sudo may print a lecture.
        found = next((line for line in output.splitlines() if line.startswith("{")), None)
        if found is None:
            return output.strip()[-200:] or f"{program} printed nothing"
        return [str(each)[:MOST_CHARACTERS] for each in json.loads(found)["differences"][:MOST]]
    except (OSError, ValueError, LookupError, TypeError) as error:
        return str(error) or type(error).__name__
