"""Reset: undo provisioning."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pylaunch.base.dataclass import dataclass
from pylaunch.provision.convergence import ProvisionRequest
from pylaunch.transport.connections import disconnect
from pylaunch.transport.runner import PlaybookResult, PlaybookRun, Progress, run_playbook


@dataclass(frozen=True)
class Reset:
    """Parts to reset."""

    request: ProvisionRequest
    playbook: Path
    environments: bool
    """Also the Python environments."""

    check: bool
    """Report changes without making them."""


def reset(wanted: Reset, *, on_progress: Callable[[Progress], None] | None = None) -> PlaybookResult:
    """Remove from every host what the roles own, and nothing else."""
    request = wanted.request
    run = PlaybookRun(
        playbook=wanted.playbook,
        cluster=request.cluster,
        tags=request.roles,
        extra_vars={**request.extra_vars, "python_env_reset": wanted.environments},
        check=wanted.check,
        become_password=request.become_password,
    )
    result = run_playbook(run, on_event=on_progress)
    # Limits apply from the next login.
    disconnect(request.cluster)
    return result
