"""Hand one notification to one target. No error repeats a URL, or what a server or a program answered."""

import html
import json
import re
from email.message import EmailMessage
from http.client import HTTPException
from urllib.error import HTTPError, URLError
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
)

from pylaunch.errors import PylaunchError
from pylaunch.features.notify.notification import Notification
from pylaunch.features.notify.target import LIMIT_S, NotifyTarget, TargetKind
from pylaunch.transport.process import Together, describe_exit

_WITHOUT_REDIRECTS = (ProxyHandler, HTTPHandler, HTTPSHandler, HTTPDefaultErrorHandler, HTTPErrorProcessor)
"""A webhook that is elsewhere now would get a request without its content."""


class NotDeliveredError(PylaunchError):
    """A target did not take a notification."""


def deliver(target: NotifyTarget, notification: Notification, programs: Together) -> None:
    """Deliver within LIMIT_S; `programs` ends a program of an abandoned delivery. Raises NotDeliveredError."""
    if target.kind is TargetKind.WEBHOOK:
        text = _PINGS.sub(lambda found: f"{found[0]} ", notification.text)
        _post(target.url, json.dumps({**notification.as_data(), "text": text, "content": text}).encode())
        return
    argv, stdin, environment = target.argv, notification.text.encode("utf-8", "replace"), {}
    if target.kind is TargetKind.COMMAND:
        stdin = json.dumps(notification.as_data()).encode() + b"\n"
    elif target.kind is TargetKind.MAIL:
        stdin = _mail(argv[-1], notification)
    elif target.kind is TargetKind.DESKTOP:
        title = f"pylaunch run {notification.run}: {notification.moment.value}"
        argv = (*argv, title, html.escape(notification.text, quote=False))
    else:
        environment = {"APPRISE_URLS": target.url}  # Every user can read the arguments of a process.
    try:
        ended = programs.run(argv, stdin=stdin, timeout_s=LIMIT_S, env=environment)
    except (PylaunchError, OSError) as error:
        reason = (
            error.strerror or "cannot be started"
            if isinstance(error, OSError)
            else f"it took more than {LIMIT_S:g} s, or wrote too much"
        )
        raise NotDeliveredError(reason) from None
    if not ended.ok:
        raise NotDeliveredError(describe_exit(ended.returncode))


_PINGS = re.compile(r"@(?=everyone|here|channel|all\b)|<(?=[!@#]|https?:)")
"""Mentions of a whole chat, and links with another text, in the forms of Slack and Discord: the text is a rank's."""


def _post(url: str, content: bytes) -> None:
    request = Request(url, content, {"Content-Type": "application/json", "User-Agent": "pylaunch"}, method="POST")
    opener = OpenerDirector()
    for handler in _WITHOUT_REDIRECTS:
        opener.add_handler(handler())
    try:
        with opener.open(request, timeout=LIMIT_S):
            pass
    except HTTPError as error:
        with error:
            raise NotDeliveredError(f"the server answered with status {error.code}") from None
    except (URLError, OSError, HTTPException, ValueError) as error:
        cause = error.reason if isinstance(error, URLError) else error
        text = cause.strerror if isinstance(cause, OSError) else None
        raise NotDeliveredError(text or f"no answer ({type(cause).__name__})") from None


def _mail(address: str, notification: Notification) -> bytes:
    mail = EmailMessage()
    mail["To"] = address
    mail["Subject"] = f"pylaunch run {notification.run}: {notification.status}"[:200]
    rows = {name: value for name, value in notification.as_data().items() if value and name not in ("text", "content")}
    lines = (f"{name}: {', '.join(value) if isinstance(value, list) else value}" for name, value in rows.items())
    mail.set_content("\n".join([notification.text, "", *lines]) + "\n")
    return bytes(mail)
