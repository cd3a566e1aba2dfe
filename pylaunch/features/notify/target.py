"""Read the TARGET of --notify. A URL is a secret: messages show its scheme and its host."""

import re
import shlex
from collections.abc import Mapping
from enum import Enum
from urllib.parse import urlsplit

from pylaunch.base.dataclass import dataclass
from pylaunch.errors import UsageError
from pylaunch.model.text.sanitise import visible_line
from pylaunch.transport.process import program_path

LIMIT_S = 5.0
"""Time for one delivery, and for all that are left when the run has ended."""

_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&*+/=?^_{|}~][A-Za-z0-9.!#$%&*+/=?^_{|}~-]*(?:@[A-Za-z0-9.-]+)?")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]{1,31}(?=://)")
_URL = re.compile(r"[!-~]+")
EXAMPLES = "--notify https://…, command:PROGRAM, mailto:ADDRESS, desktop or env:NAME"


class TargetKind(Enum):
    """A way to deliver notifications."""

    WEBHOOK = "webhook"
    COMMAND = "command"
    MAIL = "mail"
    DESKTOP = "desktop"
    APPRISE = "apprise"


@dataclass(frozen=True)
class NotifyTarget:
    """A place for notifications."""

    kind: TargetKind
    shown: str
    """Name for a person, without secrets."""

    argv: tuple[str, ...] = ()
    """Program that delivers it; () for a webhook."""

    url: str = ""
    """Secret: of a webhook or for apprise."""


def read_target(value: str, environment: Mapping[str, str]) -> NotifyTarget:
    """Return the target that `value` names. Raises UsageError for a form, a program or a variable that is not there."""
    kind, _, rest = value.partition(":")
    if kind != "env":
        return _read(value, "")
    found = environment.get(rest, "")
    if not found:
        raise UsageError(
            f"--notify {visible_line(value)}: the variable is not set", hint=f"export {rest or 'NAME'}=https://…"
        )
    if found.startswith("env:"):
        raise UsageError(f"--notify {visible_line(value)}: the variable names another variable", hint=EXAMPLES)
    return _read(found, f"env:{rest}")


def _read(value: str, name: str) -> NotifyTarget:
    kind, _, rest = value.partition(":")
    if kind == "command":
        return NotifyTarget(TargetKind.COMMAND, *_command(rest, name))
    if kind == "mailto" and _ADDRESS.fullmatch(rest):
        return NotifyTarget(TargetKind.MAIL, name or value, (_program("sendmail", name or value), "-i", rest))
    if value == "desktop":
        return NotifyTarget(TargetKind.DESKTOP, value, (_program("notify-send", value), "--app-name=pylaunch", "--"))
    if (scheme := _SCHEME.match(value)) and _URL.fullmatch(value):
        return _of_url(value, scheme[0], name)
    # The rest may be a secret.
    raise UsageError(f"--notify {name or visible_line(kind[:16]) + ':…'}: not a target", hint=EXAMPLES)


def _command(text: str, name: str) -> tuple[str, tuple[str, ...]]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(
            f"--notify {name or 'command:…'}: {error}", hint="--notify 'command:program argument'"
        ) from None
    if not words:
        raise UsageError(f"--notify {name or 'command:'}: no program", hint="--notify 'command:program argument'")
    shown = name or f"command:{visible_line(words[0])}"
    return shown, (_program(words[0], shown), *words[1:])


def _of_url(url: str, scheme: str, name: str) -> NotifyTarget:
    try:
        parts = urlsplit(url)
        host, has_user, _ = parts.hostname or "", "@" in parts.netloc, parts.port
    except ValueError:
        host, has_user = "", False
    if scheme not in ("http", "https"):
        shown = name or f"{scheme}://…"
        return NotifyTarget(TargetKind.APPRISE, shown, (_program("apprise", shown), "--title", "pylaunch"), url)
    shown = name or f"{scheme}://{host}/…"
    if not host or has_user:
        raise UsageError(f"--notify {shown}: expected a host, and no user name", hint=EXAMPLES)
    return NotifyTarget(TargetKind.WEBHOOK, shown, url=url)


def _program(program: str, shown: str) -> str:
    path = program_path(program)
    if path is None:
        raise UsageError(
            f"--notify {shown}: program not found: {visible_line(program)}",
            hint=f"install {visible_line(program)}, or choose another target: {EXAMPLES}",
        )
    return path
