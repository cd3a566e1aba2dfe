"""Send the trace of each start beside the run. A collector that does not answer costs one line of warning."""

import threading
import time

from pylaunch.features.traces.spans import StartTrace, TimedSpan
from pylaunch.model.text.sanitise import visible_line
from pylaunch.runs import steady_clock
from pylaunch.runs.attach import AttachEvent
from pylaunch.runs.start_events import StartEvent
from pylaunch.terminal import console
from pylaunch.terminal.doors import RunEnding, RunObserver

LIMIT_S = 5.0
"""Time for which the end of a run waits for the collector."""


class Tracing(RunObserver):
    """Sends the trace of each attempt in a thread of its own."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._trace = StartTrace()
        self._threads: list[threading.Thread] = []

    def on_event(self, event: StartEvent | AttachEvent) -> None:
        """Send the trace of an attempt that `event` completes."""
        trace = self._trace.of_event(event, steady_clock.now())
        if trace is not None:
            self._send(trace)

    def at_end(self, ending: RunEnding) -> None:
        """Send what is left, and wait for all traces."""
        trace = self._trace.completed(steady_clock.now())
        if trace is not None:
            self._send(trace)
        until = time.monotonic() + LIMIT_S
        try:
            for thread in self._threads:
                thread.join(max(0.0, until - time.monotonic()))
        except KeyboardInterrupt:  # The run has ended, and keeps its exit code.
            self._warn("interrupted")
            return
        if any(thread.is_alive() for thread in self._threads):
            self._warn(f"not within {LIMIT_S:.0f} s")

    def _send(self, trace: TimedSpan) -> None:
        thread = threading.Thread(target=self._export, args=(trace,), name="trace", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # The limit of processes of this user.
            self._warn(str(error))
        else:
            self._threads.append(thread)

    def _export(self, trace: TimedSpan) -> None:
        try:
            from pylaunch.features.traces.export import export  # noqa: PLC0415 -- the SDK takes 0.3 s

            if not export(trace):
                self._warn("not accepted")
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "opentelemetry":
                raise
            # Without the extra, the variable is for other programs.
        except ValueError as error:
            self._warn(visible_line(str(error)))
        except (OSError, RuntimeError) as error:  # Of requests, from older exporters; their texts have the address.
            self._warn(type(error).__name__)

    def _warn(self, reason: str) -> None:
        console.say(f"warning: the trace was not delivered to the collector of {self._endpoint}: {reason}")
