"""Exceptions that no signature explains: the program's own, those of victims, and reports of other processes. Pure."""

from __future__ import annotations

from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.verdict.logs.errors.error_class import ErrorClass, error_class, is_of_another, is_report
from pylaunch.verdict.logs.reading import Clue
from pylaunch.verdict.logs.scan import LogMatch
from pylaunch.verdict.logs.signature import Role, Signature, SignatureCatalogue
from pylaunch.verdict.logs.traceback import ExceptionUnit, RaisedException, is_of_library

EXCEPTION = "exception"
"""Id of the signature of such an exception."""

_VICTIMS = (
    "ConnectionResetError", "BrokenPipeError", "ConnectionAbortedError", "ConnectionRefusedError", "_InactiveRpcError",
    "AioRpcError",
)  # fmt: skip
_STOPS = ("KeyboardInterrupt",)
_OPEN = ("KeyError", "FileNotFoundError")
"""Exceptions that name a thing which the program, a checkpoint, a configuration or another process lacks."""

_REPORTS = (
    "CalledProcessError", "ChildFailedError", "ProcessExitedException", "ProcessRaisedException", "SignalException",
    "SystemExit", "RayTaskError", "BrokenProcessPool", "SubprocessError",
)  # fmt: skip


_OF_CODE = (
    "TypeError", "AttributeError", "NameError", "IndexError", "UnboundLocalError", "ZeroDivisionError", "SyntaxError",
    "IndentationError", "RecursionError", "AssertionError", "NotImplementedError",
)  # fmt: skip
"""Exceptions of a mistake in the code; others are raised as well for what the code was given."""

_GIVEN = ("framework-config", "data-damaged")
"""Causes of an exception that is raised for what the code was given: its options, its data."""


def exception_match(catalogue: SignatureCatalogue, unit: ExceptionUnit) -> tuple[LogMatch, Clue]:
    """Return a match and its reading for a chain of exceptions: its last one, or that whose form shows a class."""
    raised = unit.chain[-1]
    name = raised.type.rpartition(".")[2]
    role, cause, found = Role.ROOT, "program-error", None
    if name in _VICTIMS:
        role, cause = Role.SYMPTOM, "peer-lost"
    elif name in _STOPS:
        role, cause = Role.SYMPTOM, "stopped-from-outside"
    elif name.partition("(")[0] in _REPORTS or is_report(raised.text):
        role, cause = Role.WRAPPER, "unexplained"
    else:
        raised, found = _classed(unit)
        if found is None and (name in _OPEN or is_of_library(raised.place) or is_of_another(raised.text)):
            cause = "unexplained"
    place = f" ({raised.place})" if raised.place else ""
    cause = cause if found is None else found.cause
    signature = Signature(EXCEPTION, "python", role, catalogue.causes[cause], raised.text, (), "", "", ())
    match = LogMatch(signature, unit.origin, unit.time, unit.file, raised.line, raised.text, {}, unit)
    confidence = Confidence.LOW if is_of_library(raised.place) else Confidence.MEDIUM
    if found is not None:
        confidence = found.confidence
    because = "" if found is None else found.because
    also: tuple[str, ...] = () if found is None else found.also
    if found is None and cause == "program-error" and name not in _OF_CODE:
        also = _GIVEN
    return match, Clue(cause, f"{raised.text[:300]}{place}", confidence, because=because, also=also)


def _classed(unit: ExceptionUnit) -> tuple[RaisedException, ErrorClass | None]:
    """Return the last exception of a chain with its class; else an earlier one that is no mere program error."""
    for raised in reversed(unit.chain):
        found = error_class(raised.text + raised.more, raised.place)
        if found is not None and (raised is unit.chain[-1] or found.cause != "program-error"):
            return raised, found
    return unit.chain[-1], None
