"""Read the beginning and the end of the logs of a run from its nodes, within a bound and a deadline."""

import threading
from collections.abc import Callable, Mapping, Sequence

from pylaunch.base.dataclass import dataclass, field
from pylaunch.errors import ClusterNotReadyError
from pylaunch.model.run import RunRecord
from pylaunch.model.text.excerpt import TextTail, first_part, rejoined
from pylaunch.runs.connect.interruptible import Interrupter
from pylaunch.runs.existing.logs import LogQuery, read_logs
from pylaunch.runs.follow.run_events import LinesWritten, Notice, RunEvent

DEADLINE_S = 60.0
"""For each of the two readings: the ends of all logs, then the beginnings of the long ones."""

USUAL_LINE = 40
"""Bytes of a short line: decides how many last lines are requested for a bound in bytes."""

MARK = "[pylaunch: lines are omitted here]"
"""Line between the beginning and the end of a log that is cut."""

Stream = tuple[str, str]
"""Host, and name of the stream: "3.out"."""


@dataclass(frozen=True)
class LogExcerpts:
    """Logs, each within a bound."""

    texts: Mapping[Stream, str]
    cut: frozenset[Stream] = frozenset()
    """Logs whose middle or beginning is missing."""

    missing: tuple[str, ...] = ()
    """Reasons why logs are missing, one line each."""


@dataclass
class _Reading:
    """One reading of logs: what arrived, and whether its end was the deadline."""

    on_output: Callable[[LinesWritten], None]
    notices: list[str] = field(default_factory=list)
    is_late: bool = False

    def take(self, event: RunEvent) -> None:
        if isinstance(event, LinesWritten):
            self.on_output(event)
        elif isinstance(event, Notice):
            self.notices.append(event.text)

    def run(self, record: RunRecord, query: LogQuery, deadline_s: float, interrupter: Interrupter) -> None:
        def end() -> None:
            self.is_late = True
            interrupter.interrupt(f"no answer within {deadline_s:g} s")

        timer = threading.Timer(deadline_s, end)
        timer.start()
        try:
            read_logs(record, self.take, query, interrupter)
        except ClusterNotReadyError as error:
            self.notices += error.evidence
        except KeyboardInterrupt:
            if not self.is_late:
                raise
        finally:
            timer.cancel()
        if self.is_late:
            self.notices.append(f"not all logs were sent within {deadline_s:g} s")


def read_ends(
    record: RunRecord, streams: Sequence[str], lines: int, limit: int, deadline_s: float = DEADLINE_S
) -> LogExcerpts:
    """Return the last `lines` lines of each stream, at most `limit` characters each."""
    tails: dict[Stream, TextTail] = {}
    reading = _Reading(lambda each: tails.setdefault((each.host, each.stream), TextTail(limit)).add(each.text))
    reading.run(record, LogQuery(record.plan.nodes, list(streams), tail=lines), deadline_s, Interrupter())
    texts = {stream: tail.text for stream, tail in sorted(tails.items())}
    cut = frozenset(stream for stream, tail in tails.items() if tail.is_cut or tail.lines >= lines)
    return LogExcerpts(texts, cut, tuple(reading.notices))


def read_excerpts(
    record: RunRecord, streams: Sequence[str], limit: int, deadline_s: float = DEADLINE_S
) -> LogExcerpts:  # fmt: skip
    """Return each stream whole, or its first quarter and its end within `limit` characters, with a mark between."""
    head_limit = limit // 4
    ends = read_ends(record, streams, max(1, limit // USUAL_LINE), limit - head_limit, deadline_s)
    if not ends.cut:
        return ends
    heads: dict[Stream, str] = dict.fromkeys(ends.cut, "")
    wanted = set(ends.cut)
    interrupter = Interrupter()

    def take(each: LinesWritten) -> None:
        stream = (each.host, each.stream)
        if stream not in wanted:
            return
        text = heads[stream] + each.text
        heads[stream] = first_part(text, head_limit)
        if len(text) >= head_limit:
            wanted.discard(stream)
            if not wanted:
                interrupter.interrupt("enough")

    reading = _Reading(take)
    names = sorted({stream for _, stream in ends.cut})
    reading.run(record, LogQuery(record.plan.nodes, names), deadline_s, interrupter)
    texts = {
        stream: rejoined(heads[stream], text, MARK) if stream in ends.cut else text
        for stream, text in ends.texts.items()
    }
    return LogExcerpts(
        texts,
        frozenset(stream for stream in ends.cut if f"\n{MARK}\n" in texts[stream] or not heads[stream]),
        tuple(dict.fromkeys((*ends.missing, *reading.notices))),
    )
