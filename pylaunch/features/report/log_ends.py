"""Read the end of the logs of a run from its nodes, within a bound and a deadline."""

import threading
from collections.abc import Callable, Mapping, Sequence

from pylaunch.base.dataclass import dataclass, field
from pylaunch.errors import ClusterNotReadyError
from pylaunch.model.run import Event, RunRecord
from pylaunch.model.text.excerpt import TextTail
from pylaunch.runs.connect.interruptible import Interrupter
from pylaunch.runs.events import LinesWritten, RunEvent
from pylaunch.runs.logs import LogQuery, read_logs

DEADLINE_S = 60.0
"""For all logs together."""

Stream = tuple[str, str]
"""Host, and name of the stream: "3.out"."""


@dataclass(frozen=True)
class LogEnds:
    """Ends of logs, each within a bound."""

    texts: Mapping[Stream, str]
    cut: frozenset[Stream] = frozenset()
    """Logs whose beginning is missing."""

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
        elif isinstance(event, Event):
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
) -> LogEnds:
    """Return the last `lines` lines of each stream, at most `limit` characters each."""
    tails: dict[Stream, TextTail] = {}
    reading = _Reading(lambda each: tails.setdefault((each.host, each.stream), TextTail(limit)).add(each.text))
    reading.run(record, LogQuery(record.plan.nodes, list(streams), tail=lines), deadline_s, Interrupter())
    texts = {stream: tail.text for stream, tail in sorted(tails.items())}
    cut = frozenset(stream for stream, tail in tails.items() if tail.is_cut or tail.lines >= lines)
    return LogEnds(texts, cut, tuple(reading.notices))
