"""The roles of a job of several roles, read from the environment of a rank."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass

VARIABLE = "PYLAUNCH_ROLES"


@dataclass(frozen=True)
class RoleHosts:
    """Hosts and endpoints of a role."""

    hosts: tuple[str, ...]
    """Addresses of all of its nodes, in the order of the replicas."""

    endpoints: Mapping[str, tuple[str, ...]]
    """Port by name → "ADDRESS:PORT" of the first node of each replica."""


def roles() -> dict[str, RoleHosts]:
    """Return the roles of the job by name; {} in a run that is no part of a job."""
    found = json.loads(os.environ.get(VARIABLE) or "{}")
    return {
        name: RoleHosts(tuple(each["hosts"]), {port: tuple(ends) for port, ends in each["ports"].items()})
        for name, each in found.items()
    }
