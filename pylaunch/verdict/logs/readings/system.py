"""Readings of what the operating system and shells report: the end of a program, a name, a full file system. Pure."""

from __future__ import annotations

import re

from pylaunch.base.dataclass import replace
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.verdict.logs.facts import LogFacts
from pylaunch.verdict.logs.readings.clue import Clue, default
from pylaunch.verdict.logs.scan import LogMatch
from pylaunch.verdict.logs.signature import Role
from pylaunch.verdict.logs.traceback import RaisedException

LAST = 10
"""Lines at the end of a log among which the end of its program is reported."""

_OF_A_SHELL = 128
_TIME_LIMIT = 124
_SIGTERM = 15
_STOPS = "launcher-stops"
"""Signature of a launcher that ends the other processes."""

_WORDS = {"Killed": 9, "Segmentation fault": 11, "Bus error": 7, "Terminated": 15, "Hangup": 1,
          "Illegal instruction": 4, "Floating point exception": 8}  # fmt: skip
_ENDS = {
    9: ("killed", "SIGKILL: most often for lack of memory"), 11: ("native-crash", "SIGSEGV"),
    7: ("native-crash", "SIGBUS"), 4: ("native-crash", "SIGILL"), 8: ("native-crash", "SIGFPE"),
    15: ("stopped-from-outside", "SIGTERM"), 2: ("stopped-from-outside", "SIGINT"),
    1: ("stopped-from-outside", "SIGHUP: its terminal or session went away"),
}  # fmt: skip
_LAUNCHER = ("SignalException", "KeyboardInterrupt", "ChildFailedError", "SystemExit")
_HUBS = re.compile(r"huggingface|\bhf\.co|github|pypi|googleapis|amazonaws|wandb|modelscope|kaggle|pytorch\.org")
_SEGMENT = re.compile(r"'(/[\w.-]{1,80})'$")
_OF_FILES = ("", "write", "save", "savez", "dump", "copy", "copyfile", "copyfileobj", "copytree", "flush", "close")
"""Functions that write the files of a program."""


def shell_end(match: LogMatch, facts: LogFacts) -> Clue:
    """Return the signal, or the time limit, that ended a program whose log shows no other failure."""
    named = match.groups
    code = int(named["code"]) if "code" in named else -_WORDS[named["word"]]
    signal = -code if code < 0 else code - _OF_A_SHELL
    others = {each.line for each in facts.matches if each.signature.role in (Role.ROOT, Role.SYMPTOM)} - {match.line}
    raised = {unit.chain[-1].type.rpartition(".")[2] for scan in facts.scans for unit in scan.exceptions}
    is_last = facts.by_file[match.file].lines - match.line < LAST
    report = replace(default(match), role=Role.CONTEXT)
    is_stopped = signal == _SIGTERM and any(each.line < match.line for each in facts.of(_STOPS))
    is_other = is_stopped or match.signature.pattern.search(match.text) is None
    if match.origin.rank is not None or others or not raised <= {*_LAUNCHER} or not is_last or is_other:
        return report
    has_hung = any(" (most recent call first)" in line.text for scan in facts.scans for line in scan.tail)
    if code == _TIME_LIMIT and facts.made_progress and not has_hung:
        text = "`timeout` ended the program at its time limit (exit status 124), while it made progress"
        return Clue("scheduler-stop", text, Confidence.MEDIUM, role=Role.ROOT)
    if signal not in _ENDS:
        return report
    cause, how = _ENDS[signal]
    name = " ".join(named.get("name", "the program").split())
    return Clue(cause, f"{name} was ended by {how}", Confidence.MEDIUM, role=Role.ROOT)


def name_unknown(match: LogMatch, facts: LogFacts) -> Clue:
    """Return DNS as the cause, and a hub as another one only where the logs show a service on the Internet."""
    texts = (raised.text for scan in facts.scans for unit in scan.exceptions for raised in unit.chain)
    is_of_hub = any(_HUBS.search(text) for text in (match.text, *texts))
    clue = default(match)
    return clue if is_of_hub or not any(scan.exceptions for scan in facts.scans) else Clue(clue.cause, clue.text)


def no_space(match: LogMatch, facts: LogFacts) -> Clue:
    """Return a full storage as the cause where the program's own code wrote a file; else /dev/shm is possible, too."""
    raised = _raised(match, facts)
    clue = default(match)
    is_file = raised is not None and raised.place and raised.call in _OF_FILES
    return Clue(clue.cause, "a file system has no room") if is_file else clue


def _raised(match: LogMatch, facts: LogFacts) -> RaisedException | None:
    chains = (unit.chain for unit in facts.by_file[match.file].exceptions)
    return next((each for chain in chains for each in chain if each.line == match.line), None)


def file_not_found(match: LogMatch, facts: LogFacts) -> Clue:
    """Return the resource tracker of Python as the cause where it removed the shared memory that a process opens."""
    segment = _SEGMENT.search(match.text)
    tracked = any("resource_tracker" in line.text for line in facts.by_file[match.file].tail)
    if segment is None or not tracked:
        return default(match)
    text = f"the shared memory {segment[1]} is gone: Python's resource tracker removed it when one of its users ended"
    return Clue("program-error", text, Confidence.MEDIUM, because="resource_tracker reports leaked shared memory")
