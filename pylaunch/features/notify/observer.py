"""Observe a run and notify the targets of --notify. A target that is slow or fails costs one line of warning."""

import json
import os
import re
import threading
import time
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from queue import SimpleQueue
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from pylaunch.base.dataclass import dataclass
from pylaunch.errors import PylaunchError, UsageError
from pylaunch.inventory.load import known_secrets
from pylaunch.model.clock import in_utc
from pylaunch.model.hostset import fold
from pylaunch.model.outcome import Outcome
from pylaunch.model.plan import RunPlan
from pylaunch.model.run import Event, EventKind
from pylaunch.model.secret import masked, sounds_secret
from pylaunch.model.text.argv import quoted
from pylaunch.model.text.redaction import Redaction
from pylaunch.model.text.sanitise import visible_line
from pylaunch.runs.events import Attached, AttemptEnded, AttemptStarted, RanksReleased, StartEvent, clock_now
from pylaunch.terminal import console
from pylaunch.terminal.doors import RunEnding, RunObserver

LIMIT_S = 5.0
"""Time for one delivery, and for all that are left when the run has ended."""

EXAMPLES = "--notify https://… or env:NAME"
_PINGS = re.compile(r"@(?=everyone|here|channel|all\b)|<(?=[!@#]|https?:)")
"""Mentions of a whole chat, and links with another text, in the forms of Slack and Discord: the text is a rank's."""


class NotDeliveredError(PylaunchError):
    """A target did not take a notification."""


class _NoRedirects(HTTPRedirectHandler):
    """A webhook at another address would get a request without its content."""

    def redirect_request(self, *_: object) -> None:
        """Refuse the redirect: it becomes an HTTPError."""


@dataclass(frozen=True)
class NotifyTarget:
    """A webhook."""

    shown: str
    """Name for a person, without secrets."""

    url: str

    def deliver(self, notification: Mapping[str, object]) -> None:
        """Post it within LIMIT_S. Raises NotDeliveredError."""
        text = _PINGS.sub(lambda found: f"{found[0]} ", str(notification["text"]))
        content = json.dumps({**notification, "text": text, "content": text}).encode()
        headers = {"Content-Type": "application/json", "User-Agent": "pylaunch"}
        try:
            with build_opener(_NoRedirects).open(Request(self.url, content, headers), timeout=LIMIT_S):
                pass
        except HTTPError as error:
            with error:
                raise NotDeliveredError(f"the server answered with status {error.code}") from None
        except (OSError, HTTPException, ValueError) as error:
            cause = error.reason if isinstance(error, URLError) else error
            reason = cause.strerror if isinstance(cause, OSError) else None
            raise NotDeliveredError(reason or f"no answer ({type(cause).__name__})") from None


def read_target(value: str, environment: Mapping[str, str]) -> NotifyTarget:
    """Return the target that `value` names. Raises UsageError for a form or a variable that is not there."""
    kind, _, name = value.partition(":")
    if kind != "env":
        return _read(value, "")
    found = environment.get(name, "")
    if not found:
        raise UsageError(
            f"--notify {visible_line(value)}: the variable is not set", hint=f"export {name or 'NAME'}=https://…"
        )
    return _read(found, f"env:{name}")


def _read(value: str, name: str) -> NotifyTarget:
    kind = value.partition(":")[0]
    if kind not in ("http", "https") or not re.fullmatch("[!-~]+", value):  # The rest may be a secret.
        raise UsageError(f"--notify {name or visible_line(kind[:16]) + ':…'}: not a target", hint=EXAMPLES)
    try:
        parts = urlsplit(value)
        host, has_user, _ = parts.hostname, "@" in parts.netloc, parts.port
    except ValueError:
        host, has_user = None, False
    shown = name or f"{kind}://{host or ''}/…"
    if not host or has_user:
        raise UsageError(f"--notify {shown}: expected a host, and no user name", hint=EXAMPLES)
    return NotifyTarget(shown, value)


LONGEST = 1000
"""Characters of a text; Discord refuses messages of more than 2000."""


def observer(values: Sequence[str]) -> RunObserver:
    """Return the observer that notifies each target. Raises UsageError for a value that is no target."""
    targets = [read_target(value, os.environ) for value in dict.fromkeys(values)]
    ours = [target.url for target in targets] + [value for name, value in os.environ.items() if sounds_secret(name)]
    return Notifier([Delivery(target) for target in targets], ours)


class Notifier(RunObserver):
    """Makes notifications of the events of one run. Their texts are masked, on one line and bounded."""

    def __init__(self, targets: Sequence["Delivery"], ours: Sequence[str]) -> None:
        self._targets = targets
        self._ours = ours
        """Secrets of this process."""

        self._hide = Redaction(ours).hide
        self._plan: RunPlan | None = None
        self._last: Outcome | None = None
        """Outcome of the attempt before."""

        self._restart = ""
        """Why the next attempt follows."""

        self._is_started = False

    def on_event(self, event: StartEvent) -> None:
        """Notify of the release, restarts, hangs and their ends."""
        match event:
            case AttemptStarted(plan):
                self._follow(plan)
                if plan.restart:
                    reasons = [self._restart, "" if self._last is None else self._last.reason]
                    self._notify("restart", "; ".join(filter(None, reasons)))
            case Attached(record):
                self._follow(record.plan)
                if self._last is not None:
                    self._notify("restart", self._last.reason)
            case RanksReleased(plan, start) if not self._is_started:
                self._is_started = True
                ranks = "1 rank" if plan.world_size == 1 else f"{plan.world_size} ranks"
                seconds = sum(start.phases.values())
                self._notify("start", f"{ranks} on {fold(plan.cluster.names)}, in {seconds:.1f} s")
            case AttemptEnded(plan, outcome):
                self._follow(plan)  # `attach` to a run that is over has no event before.
                self._last = outcome
            case Event(kind=EventKind.RESTARTING, text=text):
                self._restart = text
            case Event(kind=EventKind.HANG | EventKind.ADVANCING, text=text):
                self._notify(event.kind.value, text)
            case _:
                pass

    def at_end(self, ending: RunEnding) -> None:
        """Notify of the end, and wait for all targets together as long as one delivery may take."""
        status, reason = "refused", "the start ended with an error" if ending.error is None else ending.error.message
        if ending.outcome is not None:
            status, reason = ending.outcome.status.value, ending.outcome.reason
        self._notify("end", reason, status, ending)
        until = time.monotonic() + LIMIT_S
        for target in self._targets:
            target.close(until)

    def _follow(self, plan: RunPlan) -> None:
        self._plan = plan
        self._hide = Redaction([*self._ours, *known_secrets(plan, os.environ)]).hide

    def _notify(self, moment: str, reason: str, status: str = "running", ending: RunEnding | None = None) -> None:
        plan = self._plan
        run = plan.run if plan is not None else "" if ending is None else ending.run
        shown = self._line(reason)
        what = {"start": "started: ", "end": f"{status}: "}.get(moment, "")
        text = self._line(f"pylaunch run {run}: {what}{shown}")
        notification = {
            "event": moment,
            "run": run,
            "status": status,
            "reason": shown,
            "hosts": "" if plan is None else self._line(fold(plan.cluster.names)),
            "ranks": 0 if plan is None else plan.world_size,
            "command": "" if plan is None else self._line(quoted(masked(plan.job.command))),
            "time": in_utc(clock_now()).isoformat(timespec="milliseconds"),
            "text": text,
            "content": text,
        }
        for target in self._targets:
            target.put(notification)

    def _line(self, text: str) -> str:
        """Return `text` masked, then on one line, then cut."""
        line = visible_line(self._hide(text))
        return line if len(line) <= LONGEST else f"{line[:LONGEST]}…"


class Delivery:
    """Notifications for one target, delivered by a thread that begins with the first one.

    The thread is a daemon: this process does not wait for it at its exit.
    """

    def __init__(self, target: NotifyTarget) -> None:
        self._target = target
        self._waiting: SimpleQueue[dict[str, object] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._has_warned = False

    def put(self, notification: dict[str, object]) -> None:
        """Queue `notification`; this does not wait."""
        self._waiting.put(notification)
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
        self._waiting.put(None)
        if self._thread is None:
            return
        try:
            self._thread.join(max(0.0, until - time.monotonic()))
            late = "no answer in time"
        except KeyboardInterrupt:  # The run has ended, and keeps its exit code.
            late = "interrupted"
        if self._thread.is_alive():
            self._warn(late)

    def _deliver_all(self) -> None:
        while (notification := self._waiting.get()) is not None:
            try:
                self._target.deliver(notification)
            except PylaunchError as error:
                self._warn(error.message)

    def _warn(self, reason: str) -> None:
        """Print the first failure; the same target probably fails again for the same reason."""
        if not self._has_warned:
            self._has_warned = True
            console.say(f"warning: --notify {self._target.shown}: not delivered: {reason}")
