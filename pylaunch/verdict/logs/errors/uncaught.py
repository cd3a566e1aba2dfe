"""Exceptions that no signature explains: the program's own, those of victims, and reports of other processes. Pure."""

import re

from pylaunch.base.dataclass import replace
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.verdict.logs.errors.error_class import MEDIUM, ErrorClass, error_class
from pylaunch.verdict.logs.errors.other_processes import KILLED_CHILD, is_of_another, is_report
from pylaunch.verdict.logs.readings.clue import Clue
from pylaunch.verdict.logs.scan import LogMatch
from pylaunch.verdict.logs.signature import Role, Signature, SignatureCatalogue
from pylaunch.verdict.logs.traceback import CUT, LOOKED_UP, ExceptionUnit, RaisedException, is_installed, is_of_library

EXCEPTION = "exception"
"""Id of the signature of such an exception."""

_VICTIMS = (
    "ConnectionResetError", "BrokenPipeError", "ConnectionAbortedError", "ConnectionRefusedError", "_InactiveRpcError",
    "AioRpcError", "BrokenBarrierError",
)  # fmt: skip
_OF_A_GROUP = re.compile(r"Peer|Rank|Collective|Rendezvous|Barrier|Lost|Disconnect")
"""Names of exceptions of a library for collectives."""

_WAITED = ("TimeoutError", "CancelledError", "Empty", "GetTimeoutError")
"""Exceptions of a process that another one kept waiting."""

_STOPS = ("KeyboardInterrupt",)
_CUT = ("EOFError", "IncompleteReadError")
"""Exceptions of a process whose data or peer ended."""

_COMMAND = re.compile(r"/bin/[\w-]{1,60}:\d")
"""Place in the file that pip writes for a command of a package."""

_OPEN = ("FileNotFoundError",)
"""Exceptions that name a thing which the program, a checkpoint, a configuration or another process lacks."""

_REPORTS = (
    "CalledProcessError", "ChildFailedError", "ProcessExitedException", "ProcessRaisedException", "SignalException",
    "SystemExit", "RayTaskError", "FailedJobError", "BrokenProcessPool", "SubprocessError",
)  # fmt: skip


_WORDS = re.compile(r"[A-Za-z]{3,} [A-Za-z]")
_VALUES = re.compile(r"Expected: ?\[([^\]]{3,300})\]")
"""Values of all ranks, in the order of the ranks."""

_BY_ACCIDENT = re.compile(
    r"^(?:Attribute|Name|UnboundLocal)Error\b|'NoneType'|unsupported operand|\b(?:list|tuple) index out"
    r"|division by zero"
)
"""Exceptions that Python raises for a mistake in code, with its own words."""

_ACCIDENTAL = ("AttributeError", "NameError", "UnboundLocalError")
"""Exceptions of a mistake in code that handles another one."""


def exception_match(catalogue: SignatureCatalogue, unit: ExceptionUnit) -> tuple[LogMatch, Clue]:
    """Return a match and its reading for a chain of exceptions: its last one, or that whose form shows a class."""
    raised = _before_handler(unit)
    name = raised.type.rpartition(".")[2]
    role, cause, found = Role.ROOT, "program-error", None
    if name in _VICTIMS:
        role, cause = Role.SYMPTOM, "peer-lost"
    elif name in _WAITED and (not raised.message or name == "GetTimeoutError"):
        role, cause = Role.SYMPTOM, "unexplained"
    elif name in _STOPS:
        role, cause = Role.SYMPTOM, "stopped-from-outside"
    elif raised.type == CUT:
        raised = replace(raised, message="the log ends before it; the last frame is its place")
        role, cause = Role.WRAPPER, "unexplained"
    elif (
        name.partition("(")[0] in _REPORTS
        and not (name == "SystemExit" and _WORDS.search(raised.message))
        and not re.match(KILLED_CHILD, raised.message)
    ) or is_report(raised.text):
        role, cause = Role.WRAPPER, "unexplained"
    else:
        raised, found = _classed(unit) if raised is unit.chain[-1] else (raised, error_class(raised.text, raised.place))
        is_foreign = not raised.place or is_of_library(raised.place) or _COMMAND.search(raised.place) is not None
        is_open = name in _OPEN or is_foreign
        if found is None and (is_open or is_of_another(raised.text + raised.more)):
            cause = "unexplained"
        if found is None and is_of_another(raised.text + raised.more) and _OF_A_GROUP.search(name):
            role = Role.SYMPTOM
        if (cause if found is None else found.cause) == "program-error" and not (found and found.also):
            cause, found = _of_program(raised, found)
    place = f" ({raised.place})" if raised.place else ""
    cause = cause if found is None else found.cause
    signature = Signature(EXCEPTION, "python", role, catalogue.causes[cause], raised.text, (), "", "", ())
    match = LogMatch(signature, unit.origin, unit.time, unit.file, raised.line, raised.text, {}, unit)
    confidence = Confidence.LOW if name in _CUT or cause == "unexplained" else Confidence.MEDIUM
    if found is not None:
        confidence = found.confidence
    because = "" if found is None else found.because
    if cause == "model-differs" and (odd := _odd_one(raised.text)) is not None:
        text = f"rank {odd} has another value than the others: {raised.text[:300]}{place}"
        return match, Clue(cause, text, confidence, (odd,), because=because)
    also: tuple[str, ...] = () if found is None else found.also
    return match, Clue(cause, f"{raised.text[:300]}{place}", confidence, because=because, also=also)


def _of_program(raised: RaisedException, found: ErrorClass | None) -> tuple[str, ErrorClass | None]:
    """Return whether an exception is the program's: that of the system or of native code is not.

    Where a library raised it, and its words are not about values, the release of the library may be at fault, too.
    """
    is_native = not raised.call and raised.source and "raise " not in raised.source
    is_of_system = raised.message.startswith("[Errno ") or raised.type.endswith("IOError")
    if found is None and (is_of_system or (is_native and raised.type.endswith("RuntimeError"))):
        return "unexplained", None
    where = raised.raised_at or raised.place
    if not is_installed(where) or (found is not None and not _BY_ACCIDENT.search(raised.text)):
        return "program-error", found
    found = found or ErrorClass("program-error", MEDIUM, f"raised in a library: {where}")
    return "program-error", replace(found, also=("package-mismatch",))


def _odd_one(text: str) -> int | None:
    """Return the rank whose value is the only other one in a list of the values of all ranks."""
    listed = _VALUES.search(text)
    values = [] if listed is None else re.findall(r"[^\s,]+", listed[1])
    others = [rank for rank, value in enumerate(values) if 2 * values.count(value) < len(values)]
    return others[0] if len(others) == 1 else None


def _before_handler(unit: ExceptionUnit) -> RaisedException:
    """Return the first exception of a chain if the script raised it and a library failed while it was handled."""
    first, last = unit.chain[0], unit.chain[-1]
    is_own = first is not last and first.place and not first.call and not is_of_library(first.place)
    return first if is_own and last.call and first.type not in LOOKED_UP else last


def _classed(unit: ExceptionUnit) -> tuple[RaisedException, ErrorClass | None]:
    """Return the last exception of a chain with its class; else an earlier one that is no mere program error.

    The first one, if a mistake in the code that handled it raised the last.
    """
    if len(unit.chain) > 1 and unit.chain[-1].type in _ACCIDENTAL:
        return unit.chain[0], error_class(unit.chain[0].text + unit.chain[0].more, unit.chain[0].place)
    for raised in reversed(unit.chain):
        place = f"{raised.place} in {raised.call}" if raised.call else raised.place
        found = error_class(raised.text + raised.more, place)
        if found is not None and (raised is unit.chain[-1] or found.cause != "program-error"):
            return raised, found
    return unit.chain[-1], None
