"""Bounds on texts and lists in the messages of a node, which become lines of the record and of the terminal. Pure."""

from typing import TypeVar, cast

from pylaunch import protocol
from pylaunch.base.dataclass import fields, replace
from pylaunch.protocol import examination as views

LONGEST = 4000
"""Characters of a line or a reason. An agent sends shorter ones."""

SHORTENED = {
    **dict.fromkeys((
        protocol.RankEnd, protocol.Stopping, protocol.Finished,
        protocol.Skipped, protocol.Failed, protocol.PeersTried,
    ), LONGEST),
    protocol.RankView: views.LONGEST_TEXT,
    protocol.HostEvidence: views.LONGEST_TEXT,
}  # fmt: skip
"""Messages with texts that are shown or recorded: the longest of them, in characters."""

MOST_FACTS = 64
MOST = {
    "RankEnd.last_lines": -64, "Finished.leftovers": 256,
    "HostEvidence.kernel": -MOST_FACTS, "HostEvidence.stuck": MOST_FACTS, "HostEvidence.addresses": MOST_FACTS,
    "HostEvidence.missing": MOST_FACTS,
    "RankView.threads": views.MOST_THREADS, "RankView.groups": views.MOST_GROUPS,
    "RankView.collectives": -views.MOST_COLLECTIVES,
    "RankView.children": views.MOST_CHILDREN, "ChildProcess.threads": views.MOST_CHILD_THREADS,
    "ChildProcess.waits": views.MOST_WAITS, "ThreadStack.frames": views.MOST_STACK_FRAMES,
    "ProcessGroup.ranks": views.MOST_GROUP_RANKS, "Collective.call_site": views.MOST_SITE_FRAMES,
    "Collective.input_sizes": views.MOST_TENSORS, "Collective.output_sizes": views.MOST_TENSORS,
    "Collective.dtypes": views.MOST_TENSORS,
}  # fmt: skip
"""Largest number of entries of a field; the last ones are kept where it is negative."""

T = TypeVar("T")


def shortened(message: object) -> object:
    """Return `message` with texts and lists within the bounds."""
    longest = SHORTENED.get(type(message))
    if longest is None:
        return message
    message = _bounded(message, longest)
    if isinstance(message, protocol.RankView):
        source = message.source if message.source in views.SOURCES else ""
        children = tuple(replace(child, state=child.state[:1]) for child in message.children)
        return replace(message, source=source, state=message.state[:1], children=children)
    return message


def _bounded(value: T, longest: int, most: int | None = None) -> T:
    """Return `value` with texts of at most `longest` characters; `most` is the bound of a list, and of lists in it."""
    if isinstance(value, str):
        return cast(T, value[:longest])
    if isinstance(value, list | tuple):
        kept = value[most:] if most is not None and most < 0 else value[:most]
        return cast(T, type(value)(_bounded(each, longest, most) for each in kept))
    if isinstance(value, dict):
        return cast(T, {_bounded(key, longest): _bounded(each, longest) for key, each in [*value.items()][:most]})
    if not hasattr(type(value), "__dataclass_fields__"):
        return value
    kind = type(value).__name__
    found = {each.name: getattr(value, each.name) for each in fields(value)}  # type: ignore[arg-type]
    bounded = {name: _bounded(each, longest, MOST.get(f"{kind}.{name}")) for name, each in found.items()}
    return value if bounded == found else type(value)(**bounded)
