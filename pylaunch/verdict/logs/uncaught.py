"""Exceptions that no signature explains: the program's own, those of victims, and reports of other processes. Pure.

The type and the words show the part that an exception has in the failure; its cause is not known here.
"""

import re

from pylaunch.base.dataclass import replace
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.verdict.logs.clue import Clue
from pylaunch.verdict.logs.scan import LogMatch
from pylaunch.verdict.logs.signature import Role, Signature, SignatureCatalogue
from pylaunch.verdict.logs.traceback import CUT, ExceptionUnit, RaisedException

EXCEPTION = "exception"
"""Id of the signature of such an exception."""

LONGEST = 1000
"""Characters of a message that are read."""

_VICTIMS = (
    "ConnectionResetError", "BrokenPipeError", "ConnectionAbortedError", "ConnectionRefusedError", "_InactiveRpcError",
    "AioRpcError", "BrokenBarrierError",
)  # fmt: skip
_OF_A_GROUP = re.compile(r"Peer|Rank|Collective|Rendezvous|Barrier|Lost|Disconnect")
"""Names of exceptions of a library for collectives."""

_WAITED = ("TimeoutError", "CancelledError", "Empty", "GetTimeoutError")
"""Exceptions of a process that another one kept waiting."""

_STOPS = ("KeyboardInterrupt",)
_REPORTS = (
    "CalledProcessError", "ChildFailedError", "ProcessExitedException", "ProcessRaisedException", "SignalException",
    "SystemExit", "RayTaskError", "FailedJobError", "BrokenProcessPool", "SubprocessError",
)  # fmt: skip
_WORDS = re.compile(r"[A-Za-z]{3,} [A-Za-z]")
_REPORT = re.compile(
    r"(?i:exited unexpectedly|non-zero (?:exit|status)|exit(?:ed)? (?:code|status|with)|returned non-zero"
    r"|(?:see )?root cause above|see (?:the )?(?:\w+ )?(?:log|stack trace|error)s? (?:above|below)(?!\), is )"
    r"|worker.{0,30} died|actor died|engine core initialization failed"
    r"|child (?:process )?\w{0,10} ?(?:failed(?! to)|died|exited)|\branks? \S{1,40} failed to\b"
    r"|\b(?:pipe|pipeline|queue|stream) (?:\S{1,40} ){0,3}(?:closed unexpectedly|stopped|ended early)\b"
    r"|workers? (?:process )?(?:crashed|failure|failed to start)\b|failed to import docker image"
    r"|container start failed|(?:failed to become|did not (?:signal|become)) ready\b|nccl error (?:in|\d)"
    r"|received signal: sig|terminated with the following error)"
)
"""Words of a report that another process ended: the cause is in its log."""

_VICTIM = re.compile(
    r"(?i:connection (?:reset|closed|lost|aborted)|broken pipe|timed? ?out|heartbeat|\bpeer\b|remote process"
    r"|deadline[ _]exceeded"
    r"|\b\d{1,7}/\d{1,7} (?:ranks|processes|workers|nodes|peers) (?:have )?(?:joined|arrived|connected)"
    r"|\b(?:lost|no (?:answer|reply|response) from) (?:rank|worker|trainer|node)\b"
    r"|\b(?:rank|worker|trainer) ?\d{1,6} (?:has |was )?(?:left|lost|gone|disconnected|died|failed|exited|is gone)\b"
    r"|\b(?:other|remote) (?:end|side) (?:is|was|has)\b|\banother rank (?:failed|stopped|raised)\b"
    r"|\b(?:all_?reduce|all_?gather|broadcast|collective|barrier) (?:operation )?failed\b"
    r"|\b(?:server|master|coordinator|chief|head|scheduler|store) (?:is |has |was )?(?:gone|lost|unreachable|died)\b"
    r"|ConnectionPool\(host=.{1,300}connection refused|SIGTERM|SIGKILL|aborted due to)"
)
"""Words of a process that lost another one, or waited for it."""


def exception_match(catalogue: SignatureCatalogue, unit: ExceptionUnit) -> tuple[LogMatch, Clue]:
    """Return a match and its reading for a chain of exceptions, by the last one."""
    raised = unit.chain[-1]
    role, cause, confidence = _part(raised)
    if raised.type == CUT:
        raised = replace(raised, message="the log ends before it; the last frame is its place")
    place = f" ({raised.place})" if raised.place else ""
    signature = Signature(EXCEPTION, "python", role, catalogue.causes[cause], raised.text, (), "")
    match = LogMatch(signature, unit.origin, unit.time, unit.file, raised.line, raised.text, {}, unit)
    return match, Clue(cause, f"{raised.text[:300]}{place}", confidence)


def reports_an_end(text: str) -> bool:
    """Return True for words of a report that another process ended."""
    return _REPORT.search(text[:LONGEST]) is not None


def lost_another(text: str) -> bool:
    """Return True for words of a process that lost another one, or waited for it."""
    return _VICTIM.search(text[:LONGEST]) is not None


def _part(raised: RaisedException) -> tuple[Role, str, Confidence]:
    """Return the role of an exception, its class and the confidence in it."""
    name = raised.type.rpartition(".")[2]
    text = raised.text
    is_exit = name == "SystemExit" and _WORDS.search(raised.message) is not None
    if name in _VICTIMS:
        return Role.SYMPTOM, "peer-lost", Confidence.MEDIUM
    if name in _WAITED and (not raised.message or name == "GetTimeoutError"):
        return Role.SYMPTOM, "unexplained", Confidence.LOW
    if name in _STOPS:
        return Role.SYMPTOM, "stopped-from-outside", Confidence.MEDIUM
    if raised.type == CUT or (name.partition("(")[0] in _REPORTS and not is_exit) or reports_an_end(text):
        return Role.WRAPPER, "unexplained", Confidence.LOW
    if lost_another(text) and _OF_A_GROUP.search(name):
        return Role.SYMPTOM, "unexplained", Confidence.LOW
    return Role.ROOT, "unexplained", Confidence.LOW
