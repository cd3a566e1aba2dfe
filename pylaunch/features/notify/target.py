"""Target of --notify: a webhook or a program. A URL is a secret: no message repeats it, or what a server answered."""

import json
import re
import shlex
from collections.abc import Mapping
from http.client import HTTPException
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from pylaunch.base.dataclass import dataclass
from pylaunch.errors import PylaunchError, UsageError
from pylaunch.model.text.sanitise import visible_line
from pylaunch.transport.process import Together, describe_exit, program_path

LIMIT_S = 5.0
"""Time for one delivery, and for all that are left when the run has ended."""

EXAMPLES = "--notify https://…, command:PROGRAM or env:NAME"
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
    """A webhook, or a program that reads notifications from its stdin."""

    shown: str
    """Name for a person, without secrets."""

    url: str = ""
    argv: tuple[str, ...] = ()
    """Program and its arguments; () for a webhook."""

    def deliver(self, notification: Mapping[str, object], programs: Together) -> None:
        """Deliver within LIMIT_S; `programs` ends a program of an abandoned delivery. Raises NotDeliveredError."""
        if not self.argv:
            self._post(_PINGS.sub(lambda found: f"{found[0]} ", str(notification["text"])), notification)
            return
        content = json.dumps(notification).encode() + b"\n"
        try:
            ended = programs.run(self.argv, stdin=content, timeout_s=LIMIT_S)
        except OSError as error:
            raise NotDeliveredError(error.strerror or "cannot be started") from None
        except PylaunchError:
            raise NotDeliveredError(f"it took more than {LIMIT_S:g} s, or wrote too much") from None
        if not ended.ok:
            raise NotDeliveredError(describe_exit(ended.returncode))

    def _post(self, text: str, notification: Mapping[str, object]) -> None:
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
    """Return the target that `value` names. Raises UsageError for a form, a program or a variable that is not there."""
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
    kind, _, rest = value.partition(":")
    if kind == "command":
        return _command(rest, name)
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
    return NotifyTarget(shown, url=value)


def _command(text: str, name: str) -> NotifyTarget:
    hint = "--notify 'command:program argument'"
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"--notify {name or 'command:…'}: {error}", hint=hint) from None
    if not words:
        raise UsageError(f"--notify {name or 'command:'}: no program", hint=hint)
    program = visible_line(words[0])
    shown, path = name or f"command:{program}", program_path(words[0])
    if path is None:
        raise UsageError(f"--notify {shown}: program not found: {program}", hint=f"install {program}")
    return NotifyTarget(shown, argv=(path, *words[1:]))
