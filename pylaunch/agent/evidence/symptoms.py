"""Distinguish failures of a rank that are consequences of another failure from root causes. Pure; parses rank output.

A rank that lost the connection to another rank, or timed out waiting for it, is a victim and never the root cause.
The patterns match the output of torch 2.13 (gloo, NCCL, c10d), JAX 0.10 and their coordination services.
"""

from __future__ import annotations

import functools
import itertools
import re
import signal
from collections.abc import Sequence

LOST = "lost the connection to another rank"
DROPPED = "lost a connection, to another rank or to a service"
WAITED = "timed out waiting for other ranks"
DIFFERED = "received data of another size than its own collective expects"
OTHER_TASK = "was ended by JAX because another rank was no longer heard"
STORE = "lost the store or the rendezvous of the run"

TABLE = (
    (r"failed to pass monitoredBarrier|successfully reached monitoredBarrier", WAITED),
    (r"Timed out waiting \d+ms for (?:recv|send) operation to complete", WAITED),
    (r"\[.*gloo/.*\] (?:Timed out|Connect timeout)|Gloo \w+ failed: .*(?:[Tt]imed out|timeout)", WAITED),
    (r"Watchdog caught collective operation timeout|Some NCCL operations have failed or timed out", WAITED),
    (r"Observed flight recorder dump signal from another rank|observed a timeout on (?:some )?other rank", WAITED),
    (r"Barrier timed out|wait timeout after \d+ms, keys: |DEADLINE_EXCEEDED: .*[Bb]arrier", WAITED),
    (r"Timed out after \d+ seconds waiting for (?:clients|worker|group)|store->get\(.*\) got error: .*timeout", WAITED),
    (r"^StageTimeoutError: connecting all ranks .{0,40}did not end|^(?:\w+\.)*MissingRanksError: ranks? ", WAITED),
    (r"Connection closed by peer \[|Read error \[.*: Connection reset by peer|Write error \[.*: Broken pipe", LOST),
    (r"\[.*gloo/.*\] .*(?:Connection reset by peer|Connection refused|Broken pipe|Socket closed)", LOST),
    (r"NCCL communicator was aborted on rank \d+\..*Connection reset by peer", LOST),
    (r"ncclRemoteError|remote process exited or there was a network error|NCCL error: .*unhandled system error", LOST),
    (r"^(?:\w+\.)*(?:ConnectionResetError|BrokenPipeError|ConnectionAbortedError)\b", DROPPED),
    (r"Gloo \w+ failed: .*(?:Connection closed by peer|Connection reset by peer|Broken pipe)", LOST),
    (r"^ray\.exceptions\.(?:ActorUnavailableError|NodeDiedError)\b", LOST),
    (r"this error originated at tensorpipe|EOF: end of file \(this error originated", LOST),
    (r"Received data size doesn't match expected size|op\.preamble\.length <= op\.nbytes", DIFFERED),
    (r"because the JAX distributed service detected fatal errors", OTHER_TASK),
    (r"heartbeat timeout\. This indicates that the remote task|tasks are unhealthy \(stopped sending", OTHER_TASK),
    (r"Polled an error from coordination service|Error reported from Coordination Service", OTHER_TASK),
    (r"recvValue failed on|sendBytes failed on|waitForInput: poll for socket|Failed to recv, got 0 bytes", STORE),
    (r"The client socket has (?:timed out|failed)|TCPStore server has shut down too early", STORE),
    (r"RendezvousConnectionError|RendezvousTimeoutError|RendezvousClosedError", STORE),
)  # fmt: skip
_PREFIX = re.compile(r"^\[rank\d+\]:\s?|^  \| (?=\w+Group: )")
_EXCEPTION = re.compile(
    r"^(?:(?:[A-Za-z_][\w.]*)?Exception(?:Group)?|[A-Za-z_][\w.]*(?:Error|Interrupt|Exit|Expired|Timeout|BdbQuit))(?::|$)"
)
_NAMED = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:: |:?$)")
"""An exception of any class, where it ends a traceback: socket.gaierror, _queue.Empty, StopIteration."""

_FRAME = re.compile(r'^ +File "[^"]*", line \d+(?:, in |$)')
_TRACEBACK = "Traceback (most recent call last):"
_THREAD = "Exception in thread "
MOST_AFTER = 3
"""Lines that functions of `atexit` write after an exception of the main thread."""

_LOGGED = re.compile(
    r"^[IWEF]\d{4} \d\d:\d\d:|^Traceback |^During handling|^The above exception"
    r"|^(?:\w+\.)*(?:ConnectionResetError|BrokenPipeError|ConnectionAbortedError)\b"
)
"""Beginning of a line that is not of the message before it."""
MESSAGE_LINES = 4
"""Lines of an exception's message that are searched. Later lines belong to the exit of the process."""

_OF_PYTHON = re.compile(r"\S+: (?:No module named |can't open file |Error while finding module specification for )")

_CHAINED = ("The above exception was the direct cause", "During handling of the above exception")
LONGEST = 2000
"""Characters of a line that are searched: a rank can write lines of any length."""


def symptom(exit_code: int | None, signum: int | None, error: str, lines: Sequence[str]) -> str:
    """Return the symptom of a rank as a verb phrase ("lost the connection to another rank"); "" for a root cause.

    `error` is the exception in its error file, `lines` are its last lines of output. A signal other than SIGABRT is a
    root cause.
    """
    if exit_code == 0 or (signum is not None and signum != signal.SIGABRT):
        return ""
    plain = _without_ignored(lines)
    raised = _last_chain(plain)
    if error or raised:
        return _matched([error[:LONGEST], *raised])
    return _matched(plain) if signum == signal.SIGABRT else ""


def last_exception(lines: Sequence[str]) -> str:
    """Return the last exception in `lines`, "RuntimeError: loss is NaN"; "" without one.

    One that ends a traceback (of rich: a box) precedes lines of the same form directly after it, which programs print
    while they exit; after other output, it is one that the program survived. What Python itself prints when it cannot
    begin (`-m` with a module that is not there) counts as one.
    """
    plain = _without_ignored(lines)
    at = _last_raised(plain)
    if at < len(plain):
        return plain[at]
    return plain[-1] if plain and _OF_PYTHON.match(plain[-1]) else ""


def ends_with_exception(lines: Sequence[str]) -> bool:
    """Return True if the last of `lines` is an exception."""
    plain = _without_ignored(lines)
    return bool(plain) and len(plain) - 1 in _raised(plain)


def uncaught(lines: Sequence[str]) -> str:
    """Return the exception in the output of a rank that exited with code 0 which nobody caught; "" without one.

    An exception of a thread counts anywhere. After one of the main thread, Python exits: where more than MOST_AFTER
    lines follow, the program has handled it.
    """
    if not any(_TRACEBACK in line for line in lines):
        return ""
    plain = _without_ignored(lines)
    for at in reversed(_raised(plain)):
        if not at or not plain[at - 1].startswith(" "):
            continue  # It ends no traceback.
        above = next((line for line in reversed(plain[:at]) if not line.startswith((" ", _TRACEBACK))), "")
        if above.startswith(_THREAD):
            return f"{plain[at]} in thread {above[len(_THREAD) :].rstrip(':')}"
        if len(plain) <= at + 1 + MOST_AFTER:
            return plain[at]
    return ""


def _raised(plain: Sequence[str]) -> list[int]:
    """Return the indices of the exceptions: lines that name the class of an error, or that end a traceback."""
    found = []
    is_in_traceback = False
    for at, line in enumerate(plain):
        if line.startswith(" "):
            is_in_traceback = is_in_traceback or bool(_FRAME.match(line))
            continue
        if _EXCEPTION.match(line) or (is_in_traceback and _NAMED.match(line)):
            found.append(at)
        is_in_traceback = False
    return found


def _last_raised(plain: Sequence[str]) -> int:
    """Return the index of the last exception; that of the end without one."""
    found = _raised(plain)
    last = first = found[-1] if found else len(plain)
    while first - 1 in found:
        first -= 1
    return first if first and plain[first - 1].startswith((" ", "╰")) else last


def _without_ignored(lines: Sequence[str]) -> list[str]:
    """Return the lines without the prefix of torch, and without exceptions that Python reports and ignores."""
    plain: list[str] = []
    is_ignored = False
    for line in (_PREFIX.sub("", line[:LONGEST]) for line in lines):
        is_ignored = is_ignored or line.startswith("Exception ignored ")
        if not is_ignored:
            plain.append(line)
        elif not line.startswith((" ", "Traceback ", "Exception ignored ")):
            is_ignored = False
    return plain


def _matched(lines: Sequence[str]) -> str:
    return next((phrase for line in lines for pattern, phrase in _compiled() if pattern.search(line)), "")


@functools.lru_cache(maxsize=None)
def _compiled() -> Sequence[tuple[re.Pattern[str], str]]:
    return [(re.compile(pattern), phrase) for pattern, phrase in TABLE]


def _last_chain(lines: Sequence[str]) -> list[str]:
    """Return the message of the last exception, and those of the exceptions in its chain."""
    found: list[str] = []
    is_chained = True
    raised = {*_raised(lines)}
    for at in range(min(_last_raised(lines), len(lines) - 1), -1, -1):
        if lines[at].startswith(_CHAINED):
            is_chained = True
        elif at in raised and is_chained:
            after = lines[at + 1 : at + MESSAGE_LINES]
            found += [lines[at], *itertools.takewhile(lambda line: not _LOGGED.match(line), after)]
            is_chained = False
    return found
