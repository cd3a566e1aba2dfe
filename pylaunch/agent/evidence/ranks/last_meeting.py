"""Values by which a rank met the others, from the line that it wrote when it exited (`in_rank/answers.py`)."""

from __future__ import annotations

from collections.abc import Mapping

from pylaunch import protocol
from pylaunch.agent.evidence.examination import ENDS, STACKS
from pylaunch.agent.evidence.ranks.rank_answer import LastMeeting, decoded_meeting, overrides, started_as_other_rank
from pylaunch.agent.logs.masking import Mask
from pylaunch.agent.shared import rank_files
from pylaunch.base.layout import RunDirectory

LONGEST_LINE = 8 << 10


def last_meeting(
    directory: RunDirectory, rank: int, mask: Mask, given: Mapping[str, str]
) -> tuple[tuple[protocol.OverriddenVariable, ...], bool]:
    """Return the variables that `rank` used with other values than it was `given`, and whether it failed to meet.

    Of several Python processes of the rank, the one whose exception is from there counts.
    """
    found = [(end, each) for end in ENDS if (each := _of(directory.of_rank(rank, STACKS + end), mask)) is not None]
    if not found:
        return (), False
    end, met = next(((end, each) for end, each in found if each.is_from_there), found[0])
    used = overrides(met.meeting, given)
    is_other = bool(end) and started_as_other_rank(met.started, given)
    return (() if is_other else used), met.is_from_there


def _of(path: str, mask: Mask) -> LastMeeting | None:
    size = rank_files.size(path)
    if not size:
        return None
    try:
        return decoded_meeting(mask.hide(rank_files.read_at(path, max(0, size - LONGEST_LINE), LONGEST_LINE)))
    except (OSError, ValueError):
        return None
