"""What travels to nodes besides their part of the plan. Secrets and code are in no record."""

from __future__ import annotations

from dataclasses import dataclass, field

from pylaunch.launch.sync.tree import Tree
from pylaunch.model.secret import Secrets


@dataclass(frozen=True)
class Payload:
    """What the nodes of one run are given."""

    secrets: Secrets = field(default_factory=Secrets)
    """Values of the variables that the job names as secrets."""

    tree: Tree | None = None
    """The code, for a job that says `sync`."""

    record: str = ""
    """What a controller that never saw the run must know to follow it, kept by the nodes."""
