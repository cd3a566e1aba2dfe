"""Views of ranks from the messages of their nodes.

To take the views of a live run: `RunExaminer` while a follower follows it, `launch.existing.examine` otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pylaunch import protocol
from pylaunch.base.dataclass import dataclass
from pylaunch.launch.follow.host_facts import host_evidence
from pylaunch.model.clock import ClockOffset
from pylaunch.model.host_evidence import HostEvidence
from pylaunch.model.rank_view import (
    ChildProcess,
    Collective,
    Frame,
    OverriddenVariable,
    ProcessGroup,
    RankView,
    ThreadStack,
)
from pylaunch.protocol import examination as bounds


def rank_view(host: str, examined: protocol.RankExamined, clock: ClockOffset) -> RankView:
    """Return the view that `host` reports, its time on the controller's clock. Lists and texts are bounded."""
    frames = [
        Frame(_text(each.function), _text(each.path), each.line) for each in examined.frames[: bounds.MOST_FRAMES]
    ]
    return RankView(
        rank=examined.rank,
        host=host,
        time=clock.to_ours(examined.time),
        uncertainty_s=clock.uncertainty,
        pid=examined.pid,
        state=_text(examined.state)[:1],
        cpu_s=examined.cpu_s,
        source=examined.source if examined.source in bounds.SOURCES else "",
        note=_text(examined.note),
        threads=_threads(frames, examined.threads[: bounds.MOST_THREADS]),
        groups=tuple(
            ProcessGroup(_text(each.name), _text(each.description), tuple(each.ranks[: bounds.MOST_GROUP_RANKS]))
            for each in examined.groups[: bounds.MOST_GROUPS]
        ),
        collectives=tuple(_collective(frames, each) for each in examined.collectives[-bounds.MOST_COLLECTIVES :]),
        wchan=_text(examined.wchan),
        syscall=_text(examined.syscall),
        silent_s=examined.silent_s,
        step=examined.step,
        main_cpu_s=examined.main_cpu_s,
        main_switches=examined.main_switches,
        moved=examined.moved,
        overrides=tuple(
            OverriddenVariable(each.name, _text(each.given), _text(each.used), each.is_argument)
            for each in examined.overrides[: len(bounds.MEETING)]
            if each.name in bounds.MEETING
        ),
        age_s=examined.age_s,
        outside=tuple(map(_text, examined.outside[: bounds.MOST_GROUPS])),
        children=tuple(_child(frames, each) for each in examined.children[: bounds.MOST_CHILDREN]),
        child_count=examined.child_count,
    )


def _child(frames: Sequence[Frame], each: protocol.ExaminedChild) -> ChildProcess:
    threads = each.threads[: bounds.MOST_CHILD_THREADS]
    return ChildProcess(
        each.pid, _text(each.name), _text(each.state)[:1], each.cpu_s,
        tuple(map(_text, each.waits[: bounds.MOST_WAITS])), _threads(frames, threads), _text(each.note),
    )  # fmt: skip


def _threads(frames: Sequence[Frame], threads: Iterable[protocol.ExaminedThread]) -> tuple[ThreadStack, ...]:
    return tuple(
        ThreadStack(_text(each.name), each.is_main, _frames(frames, each.frames[: bounds.MOST_STACK_FRAMES]))
        for each in threads
    )


def _collective(frames: Sequence[Frame], each: protocol.ExaminedCollective) -> Collective:
    return Collective(
        group=_text(each.group),
        sequence=each.sequence,
        operation=_text(each.operation),
        input_sizes=_shapes(each.input_sizes),
        output_sizes=_shapes(each.output_sizes),
        dtypes=tuple(map(_text, each.dtypes[: bounds.MOST_TENSORS])),
        is_retired=each.is_retired,
        is_p2p=each.is_p2p,
        age_s=each.age_s,
        call_site=_frames(frames, each.call_site[: bounds.MOST_SITE_FRAMES]),
    )


def _frames(frames: Sequence[Frame], numbers: Iterable[int]) -> tuple[Frame, ...]:
    return tuple(frames[number] for number in numbers if 0 <= number < len(frames))


def _shapes(shapes: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(shape[: bounds.MOST_TENSORS]) for shape in shapes[: bounds.MOST_TENSORS])


def _text(text: str) -> str:
    return text[: bounds.LONGEST_TEXT]


@dataclass(frozen=True)
class RunSample:
    """Answers of the nodes to one request."""

    views: tuple[RankView, ...]
    """By rank; those of nodes that have not answered are missing."""

    facts: tuple[HostEvidence, ...] = ()
    """By host, if the request includes them."""


class ViewRequest:
    """Views that were requested from hosts, until every host has answered or is gone."""

    def __init__(self, request: protocol.Examine, hosts: Iterable[str]) -> None:
        self.request = request
        self.waiting = set(hosts)
        """Hosts that have not sent all of their views."""

        self._views: dict[int, RankView] = {}
        self._facts: dict[str, HostEvidence] = {}

    @property
    def views(self) -> tuple[RankView, ...]:
        """Views so far, by rank."""
        return tuple(self._views[rank] for rank in sorted(self._views))

    @property
    def sample(self) -> RunSample:
        """Views and facts so far."""
        return RunSample(self.views, tuple(self._facts[host] for host in sorted(self._facts)))

    def take(self, host: str, message: object, clock: ClockOffset) -> None:
        """Add a message of `host` if it is an answer to this request."""
        if isinstance(message, protocol.RankExamined) and message.serial == self.request.serial:
            self._views[message.rank] = rank_view(host, message, clock)
        elif isinstance(message, protocol.NodeEvidence) and message.serial == self.request.serial:
            if self.request.node:
                self._facts.setdefault(host, host_evidence(host, message, clock.to_ours, clock.uncertainty))
        elif isinstance(message, protocol.Examined) and message.serial == self.request.serial:
            self.waiting.discard(host)

    def without(self, host: str) -> None:
        """Wait for `host` no longer."""
        self.waiting.discard(host)
