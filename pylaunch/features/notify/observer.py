"""Observe a run and notify the targets of --notify. A target that is slow or fails costs one line of warning."""

import os
import threading
import time
from collections import deque
from collections.abc import Sequence

from pylaunch.errors import PylaunchError
from pylaunch.features.notify.notification import Narration, Notification
from pylaunch.features.notify.target import LIMIT_S, NotifyTarget, read_target
from pylaunch.inventory.known_secrets import known_secrets
from pylaunch.model.secret import sounds_secret
from pylaunch.model.text.redaction import Redaction
from pylaunch.runs import steady_clock
from pylaunch.runs.attach import Attached, AttachEvent
from pylaunch.runs.start_events import AttemptStarted, StartEvent
from pylaunch.terminal import console
from pylaunch.terminal.doors import RunEnding, RunObserver
from pylaunch.transport.process import Together

MOST_WAITING = 8
"""Notifications that wait for one target; the oldest give way."""


def observer(values: Sequence[str]) -> RunObserver:
    """Return the observer that notifies each target. Raises UsageError for a value that is no target."""
    targets = [read_target(value, os.environ) for value in dict.fromkeys(values)]
    return _Notifier(targets)


class _Notifier(RunObserver):
    """Passes notifications to a queue for each target."""

    def __init__(self, targets: Sequence[NotifyTarget]) -> None:
        self._queues = [_TargetQueue(target) for target in targets]
        self._ours = [target.url for target in targets]
        self._ours += [value for name, value in os.environ.items() if sounds_secret(name)]
        self._narration = Narration(Redaction(self._ours).hide)

    def on_event(self, event: StartEvent | AttachEvent) -> None:
        """Queue the notification of `event`."""
        if isinstance(event, AttemptStarted | Attached):
            plan = event.plan if isinstance(event, AttemptStarted) else event.record.plan
            self._narration.mask_with(Redaction([*self._ours, *known_secrets(plan, os.environ)]).hide)
        self._queue(self._narration.of_event(event, steady_clock.now()))

    def at_end(self, ending: RunEnding) -> None:
        """Notify of the end, and wait for all targets together as long as one delivery may take."""
        self._end(self._narration.of_end(ending, steady_clock.now()))

    def at_end_of_job(self, name: str, ending: RunEnding) -> None:
        """Notify of the end of a job of several roles, as of that of a run."""
        self._end(self._narration.of_job(name, ending, steady_clock.now()))

    def _end(self, notification: Notification | None) -> None:
        self._queue(notification)
        until = time.monotonic() + LIMIT_S
        for queue in self._queues:
            queue.close(until)

    def _queue(self, notification: Notification | None) -> None:
        if notification is not None:
            for queue in self._queues:
                queue.put(notification)


class _TargetQueue:
    """Notifications for one target, delivered by a thread that begins with the first one.

    The thread is a daemon: this process does not wait for it at its exit.
    """

    def __init__(self, target: NotifyTarget) -> None:
        self._target = target
        self._waiting: deque[Notification] = deque(maxlen=MOST_WAITING)
        self._changed = threading.Condition()
        self._is_closed = False
        self._has_warned = False
        self._thread: threading.Thread | None = None
        self._programs = Together()

    def put(self, notification: Notification) -> None:
        """Queue `notification`; this does not wait."""
        with self._changed:
            self._waiting.append(notification)
            self._changed.notify()
        if self._thread is None:
            thread = threading.Thread(target=self._deliver_all, name="notify", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # The limit of processes of this user.
                self._warn(str(error))
            else:
                self._thread = thread

    def close(self, until: float) -> None:
        """Wait until everything is delivered, until `until` on the monotonic clock; then abandon the rest."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._thread is not None:
            try:
                self._thread.join(max(0.0, until - time.monotonic()))
            except KeyboardInterrupt:  # The run has ended, and keeps its exit code.
                self._warn("interrupted")
                self._programs.end()
                return
            if self._thread.is_alive():
                self._warn("no answer in time")
                self._programs.end()

    def _deliver_all(self) -> None:
        from pylaunch.features.notify.deliver import deliver  # noqa: PLC0415 -- HTTP and mail take 0.1 s

        while (notification := self._next()) is not None:
            try:
                deliver(self._target, notification, self._programs)
            except PylaunchError as error:
                self._warn(error.message)

    def _next(self) -> Notification | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closed)
            return self._waiting.popleft() if self._waiting else None

    def _warn(self, reason: str) -> None:
        """Print the first failure; the same target probably fails again for the same reason."""
        with self._changed:
            is_first, self._has_warned = not self._has_warned, True
        if is_first:
            console.say(f"warning: --notify {self._target.shown}: not delivered: {reason}")
