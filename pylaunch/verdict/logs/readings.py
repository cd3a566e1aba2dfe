"""Texts that other lines or numbers decide: ends that launchers report, removed files, counts, Xids. Pure."""

from __future__ import annotations

import re

from pylaunch.base.dataclass import replace
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.verdict.causes.xid import XIDS, XidKind
from pylaunch.verdict.logs.clue import Clue, Reader, default
from pylaunch.verdict.logs.facts import LogFacts
from pylaunch.verdict.logs.scan import LogMatch
from pylaunch.verdict.logs.signature import Role
from pylaunch.verdict.logs.victims.rank_ends import SIGNAL_NUMBERS, SIGNALS, STOPS

LIMIT = "launcher-limit"
NAMED = "named-exit"
EXITS = ("rank-exit", "process-exits", NAMED, LIMIT)
"""Signatures of a launcher's reports about what ended."""

OF_A_SHELL = 128
"""Exit status of a shell for a signal, less the number of the signal."""

AGAIN = 3
"""Lines about a name that is not found from which on it is no name that comes up while the ranks start."""

LAST = 10
"""Lines at the end of a log among which the end of its program is reported."""

_STARTS = re.compile(r"\b(?:torchrun|mpirun|mpiexec|srun|accelerate|deepspeed|torch\.distributed)\b")
"""Programs that start ranks: what the ranks print after the end of these does not matter."""

_KILLED = ("killed", "SIGKILL: most often for lack of memory")
_REMOVES = re.compile(r"(?i)\b(?:remov(?:e|ing)|deletes?|deleted|deleting|prun(?:e|ing)|unlink|purge|rotate)\w{0,4}\b")


def read(match: LogMatch, facts: LogFacts) -> Clue:
    """Return the reading of a match: that of its reader, else the default of its signature."""
    reader = READERS.get(match.signature.id)
    return default(match) if reader is None else reader(match, facts)


def read_exit(match: LogMatch, facts: LogFacts) -> Clue:
    """Return the signal that ended the rank which a launcher reports first; else a report without a cause."""
    first = next((each for each in facts.of(NAMED) if each.file == match.file), None)
    is_planned = first is not None and not _is_failure(first) and first.line < match.line
    if match.signature.id in (LIMIT, STOPS):
        return replace(default(match), role=Role.BENIGN) if is_planned else default(match)
    named = {name.rstrip("23456"): value for name, value in match.groups.items()}
    code = int(named["code"]) if "code" in named else -SIGNAL_NUMBERS.get(named["signal"], 0)
    if code == 0 or (is_planned and code in (143, -15) and facts.of(STOPS)):
        return replace(default(match), role=Role.BENIGN)
    signal = code if "by_signal" in named else -code if code < 0 else code - OF_A_SHELL
    before = [each for name in (*EXITS, STOPS) for each in facts.of(name) if _is_failure(each)]
    is_first = all(each.file != match.file or each.line >= match.line for each in before)
    is_hangup = any(f" {OF_A_SHELL + 1}" in line.text for scan in facts.scans for line in scan.tail[-3:])
    if match.signature.id == NAMED or signal not in SIGNALS or not is_first or (signal == 1 and not is_hangup):
        return default(match)
    cause, how = SIGNALS[signal]
    if "rank" not in named:
        return Clue(cause, f"process {named['name']} was ended by {how}", role=Role.ROOT)
    rank = int(named["rank"])
    text = f"rank {rank} was ended by {how}{facts.ends.shown_last(rank)}"
    return Clue(cause, text, Confidence.MEDIUM, (rank,), Role.ROOT, "the launcher reports it as the first end")


def _is_failure(report: LogMatch) -> bool:
    return not any(name.startswith("code") and value == "0" for name, value in report.groups.items())


def _shell_end(match: LogMatch, facts: LogFacts) -> Clue:
    """Return the signal that ended a program whose log shows no other failure."""
    named, report = match.groups, replace(default(match), role=Role.CONTEXT)
    word = (named.get("word") or named.get("alone", "")).capitalize()
    code = int(named["code"]) if "code" in named else -SIGNAL_NUMBERS[word]
    signal = -code if code < 0 else code - OF_A_SHELL
    is_launcher = _STARTS.search(named.get("name", "")) is not None
    if match.origin.rank is not None or not (is_launcher or facts.by_file[match.file].lines - match.line < LAST):
        return report
    others = {each.line for each in facts.matches if each.signature.role in (Role.ROOT, Role.SYMPTOM)} - {match.line}
    if others or any(scan.exceptions for scan in facts.scans) or signal not in SIGNALS:
        return report
    cause, how = _KILLED if signal == 9 else SIGNALS[signal]
    name = " ".join(named.get("name", "the program").split())
    return Clue(cause, f"{name} was ended by {how}", role=Role.ROOT)


def _gai(match: LogMatch, facts: LogFacts) -> Clue:
    """Return a name without an address; a line or two of torch, which asks again, are no failure alone."""
    quiet = {each.signature.id for each in facts.matches if each.signature.role in (Role.CONTEXT, Role.BENIGN)}
    is_once = len(facts.of(match.signature.id)) < AGAIN and facts.ids <= {match.signature.id, *quiet}
    is_alone = is_once and not any(scan.exceptions for scan in facts.scans)
    return replace(default(match), role=Role.BENIGN) if is_alone else default(match)


def _joined(match: LogMatch, _facts: LogFacts) -> Clue:
    """Return ranks that are missing, or a second launch where more processes joined than the world size."""
    joined, world = int(match.groups["joined"]), int(match.groups["world"])
    if joined <= world:
        return default(match)
    text = f"{joined} processes joined a group of {world}: a second launch, or a stale store"
    return Clue("duplicate-launch", text, Confidence.HIGH)


def _missing_file(match: LogMatch, facts: LogFacts) -> Clue:
    """Return the process that removed a file before another one used it, if a line says so; else a missing file."""
    path = match.groups["path"]
    whole, folder = (rf"(?<![\w./-]){re.escape(each)}" for each in (path, path.rpartition("/")[0] or path))
    is_named = re.compile(rf"{whole}(?!\.?[\w-]|/\w)|{folder}/?$")
    before = (each for each in facts.by_file[match.file].tail if each.line < match.line and each.origin != match.origin)
    by = next((each for each in before if is_named.search(each.text) and _REMOVES.search(each.text)), None)
    if by is None:
        return default(match)
    text = f"{str(by.origin) or 'another process'} removed {path} before another one used it"
    ranks = () if by.origin.rank is None else (by.origin.rank,)
    return Clue("checkpoint-race", text, ranks=ranks, because=f"its line {by.text[:80]!r}")


def _xid(match: LogMatch, facts: LogFacts) -> Clue:
    """Return the part that an Xid has, by NVIDIA's table."""
    code = int(match.groups["code"])
    known = XIDS.get(code)
    name = known.name if known else "an error that is not in pylaunch's table"
    text = f"the GPU {match.groups['bus']} reported Xid {code}: {name}"
    if code in (13, 31, 69):
        return Clue("gpu-program-fault", text)
    if code in (109, 119, 120, 62):
        return Clue("gpu-driver-hang", text, Confidence.HIGH)
    if known is not None and known.kind is not XidKind.DAMAGED:
        role = Role.BENIGN if known.kind is XidKind.PROGRAM else Role.WARNING
        return Clue("gpu-hardware", text, Confidence.LOW, role=role)
    return Clue("gpu-hardware", text, Confidence.HIGH)


READERS: dict[str, Reader] = {
    **dict.fromkeys((*EXITS, STOPS), read_exit),
    "c10d-gai": _gai,
    "file-notfound": _missing_file,
    "gpu-xid": _xid,
    "shell-end": _shell_end,
    "store-barrier-timeout": _joined,
    "store-barrier-waiting": _joined,
}
