"""Parts of jobs of several roles, as the records of their runs name them."""

import contextlib

import msgspec

from pylaunch.model.job import RolePart
from pylaunch.model.plan import base_of
from pylaunch.model.text import typed_json
from pylaunch.store import runs
from pylaunch.store.paths import run_paths


class _Job(msgspec.Struct):
    part: RolePart | None = None


class _Plan(msgspec.Struct):
    job: _Job


class _PartOfHead(msgspec.Struct):
    plan: _Plan
    is_foreign: bool = False


def recorded_parts() -> dict[str, RolePart]:
    """Return the part of a job that each recorded run is, by run.

    Nodes add no run to a job that was started here: of such a job, only runs that were started here count.
    """
    own: dict[str, RolePart] = {}
    foreign: dict[str, RolePart] = {}
    for attempt in runs.ids():
        run = base_of(attempt)
        if run in own or run in foreign:
            continue
        with contextlib.suppress(OSError, msgspec.DecodeError):  # Readers of all records report it.
            head = typed_json.decoded(run_paths(attempt).plan.read_bytes(), _PartOfHead)
            if head.plan.job.part is not None:
                (foreign if head.is_foreign else own)[run] = head.plan.job.part
    jobs = {part.job for part in own.values()}
    return own | {run: part for run, part in foreign.items() if part.job not in jobs}
