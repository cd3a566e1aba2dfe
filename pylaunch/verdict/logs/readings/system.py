"""Readings of what the operating system and shells report: the end of a program, a name, a full file system. Pure."""

from __future__ import annotations

import itertools
import re
from signal import SIGABRT, SIGTERM

from pylaunch.base.dataclass import replace
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.verdict.logs.facts import LogFacts
from pylaunch.verdict.logs.readings.clue import Clue, default
from pylaunch.verdict.logs.scan import LogMatch
from pylaunch.verdict.logs.signature import Role
from pylaunch.verdict.logs.traceback import LOOKED_UP, RaisedException, is_of_library
from pylaunch.verdict.logs.victims.launcher_exits import OF_A_SHELL, STOPS
from pylaunch.verdict.logs.victims.rank_ends import SIGNAL_NUMBERS, SIGNALS

LAST = 10
"""Lines at the end of a log among which the end of its program is reported."""

_TIME_LIMIT = 124
_ENDS = {**SIGNALS, 9: ("killed", "SIGKILL: most often for lack of memory")}
_LAUNCHER = ("SignalException", "KeyboardInterrupt", "ChildFailedError", "SystemExit")
_STARTS = re.compile(r"\b(?:torchrun|mpirun|mpiexec|srun|accelerate|deepspeed|torch\.distributed)\b")
"""Programs that start ranks: what the ranks print after the end of these does not matter."""

_SUBPROCESS = ("run", "Popen", "call", "check_call", "check_output", "create_subprocess_exec", "__init__")
_REMOVES = re.compile(
    r"(?i)\b(?:remov(?:e|ing)|deletes?|deleted|deleting|prun(?:e|ing)|unlink|clean|evict|purge|rotate)\w{0,4}\b"
)
_OF_ANYONE = (
    "common", "core", "data", "examples", "lib", "megatron", "models", "scripts", "src", "tests", "tools", "utils",
)  # fmt: skip
"""Names of packages of which many programs have one of their own."""

_REMOVAL = re.compile(r"\b(?:os|shutil)\.(?:remove|unlink|rmdir|rmtree)\(|\.(?:unlink|rmdir)\(")
_SAVES = re.compile(r", in _?save\w*$|\bsave\w*\(.{1,200}checkpoint")
_SENT = re.compile(r"broadcast|bcast|gather|scatter|recv")
_OF_PACKAGE = re.compile(r"/(?:site|dist)-packages/(\w{1,60})/")
_SEGMENT = re.compile(r"'(/[\w.-]{1,80})'$")
_CRASHED = re.compile(r"(?:Current thread|Stack) .{0,80}\(most recent call first\)")
_FRAME = re.compile(r'File "(.{1,300})", line (\d{1,7}) in (\S{1,80})')
_LIBRARY = re.compile(
    r"(?:^|[\s/])([\w.+-]{1,100}\.so[\d.]{0,12})\([\w+:~$@]{0,200}\) ?\[0x|^PC: @ +0x\w+ +\(unknown\) +(\w+)\("
)
_OF_THE_SYSTEM = re.compile(r"lib(?:c|m|dl|rt|pthread|stdc\+\+|gcc_s|ucs|open-pal)\b|ld-|libpython")
_OF_FILES = ("", "write", "save", "savez", "dump", "copy", "copyfile", "copyfileobj", "copytree", "flush", "close")
"""Functions that write the files of a program."""


def shell_end(match: LogMatch, facts: LogFacts) -> Clue:
    """Return the signal, or the time limit, that ended a program whose log shows no other failure."""
    named = match.groups
    code = (
        int(named["code"]) if "code" in named else -SIGNAL_NUMBERS[(named.get("word") or named["alone"]).capitalize()]
    )
    signal = -code if code < 0 else code - OF_A_SHELL
    is_launcher = _STARTS.search(named.get("name", "")) is not None
    report = replace(default(match), role=Role.CONTEXT)
    if match.origin.rank is not None or not (is_launcher or facts.by_file[match.file].lines - match.line < LAST):
        return report
    others = {each.line for each in facts.matches if each.signature.role in (Role.ROOT, Role.SYMPTOM)} - {match.line}
    raised = {unit.chain[-1].type.rpartition(".")[2] for scan in facts.scans for unit in scan.exceptions}
    is_stopped = signal == SIGTERM and any(each.line < match.line for each in facts.of(STOPS))
    is_other = is_stopped or match.signature.pattern.search(match.text) is None
    if others or not raised <= {*_LAUNCHER} or is_other:
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
    clue = default(match)
    return clue if facts.shows_hub or not any(scan.exceptions for scan in facts.scans) else Clue(clue.cause, clue.text)


def no_space(match: LogMatch, facts: LogFacts) -> Clue:
    """Return a full storage as the cause where the program's own code wrote a file; else /dev/shm is possible, too."""
    raised = _raised(match, facts)
    clue = default(match)
    is_file = raised is not None and raised.place and raised.call in _OF_FILES
    return Clue(clue.cause, "a file system has no room") if is_file else clue


def _raised(match: LogMatch, facts: LogFacts) -> RaisedException | None:
    chains = (unit.chain for unit in facts.by_file[match.file].exceptions)
    return next((each for chain in chains for each in chain if each.line == match.line), None)


def crash_place(match: LogMatch, facts: LogFacts) -> str:
    """Return the function at which a process crashed, and the line of its program, as Python's faulthandler prints it.

    "" without the stack of the thread that crashed.
    """
    after = [each.text for each in facts.by_file[match.file].tail if match.line < each.line]
    at = next((at for at, text in enumerate(after) if _CRASHED.match(text)), len(after))
    frames = list(itertools.takewhile(bool, (_FRAME.match(text) for text in after[at + 1 :])))
    own = next((f"{each[1]}:{each[2]}" for each in frames if each and not is_of_library(each[1])), "")
    return f"{frames[0][3]} ({own or frames[0][1]})" if frames and frames[0] else ""


def crash_library(match: LogMatch, facts: LogFacts) -> str:
    """Return the library of the first frame after a crash that is none of the system; Ray prints its function alone."""
    after = (each.text for each in facts.by_file[match.file].tail if 0 < each.line - match.line <= LAST)
    frames = (found[1] or found[2] for text in after if (found := _LIBRARY.search(text)))
    return next((each for each in frames if not _OF_THE_SYSTEM.match(each)), "")


def native_abort(match: LogMatch, facts: LogFacts) -> Clue:
    """Return the abort of native code, with the rank that a launcher reports for a SIGABRT."""
    clue, first = default(match), facts.ends.first
    is_named = first is not None and first.code == -SIGABRT
    return replace(clue, ranks=(first.rank,)) if first is not None and is_named else clue


def text_encoding(match: LogMatch, facts: LogFacts) -> Clue:
    """Return a damaged text with medium confidence, unless the locale of the node knows ASCII alone."""
    return default(match, Confidence.LOW if "'ascii'" in match.text else Confidence.MEDIUM)


def pickle_of(match: LogMatch, facts: LogFacts) -> Clue:
    """Return a damaged archive of data where a checksum in it is wrong; else a damaged checkpoint."""
    clue = default(match)
    return replace(clue, cause="data-damaged", text="an archive is damaged") if "Bad CRC-32" in match.text else clue


def pickle_of_code(match: LogMatch, facts: LogFacts) -> Clue:
    """Return other code on some ranks where only these lack what a pickle of another rank names."""
    lacking, raised = {each.origin.rank for each in facts.of(match.signature.id)}, _raised(match, facts)
    is_sent = raised is not None and _SENT.search(f"{raised.call} {raised.source}") is not None
    name, module = match.groups["name"], match.groups["module"]
    if module == "__main__" or not is_sent or None in lacking or not set(facts.ranks) - lacking:
        return default(match)
    text = f"their {module} lacks {name}, which another rank sent: other code than on the other ranks"
    return Clue("model-differs", text, Confidence.MEDIUM, because="ranks of the same run do not lack it")


def file_not_found(match: LogMatch, facts: LogFacts) -> Clue:
    """Return the cause of a missing file as far as other lines show it: first errors of its chain, who removed it."""
    scan = facts.by_file[match.file]
    chain = next((unit.chain for unit in scan.exceptions if unit.line <= match.line <= unit.last), ())
    own = next((at for at, each in enumerate(chain) if each.line == match.line), 0)
    if own and chain[0].type not in LOOKED_UP:
        first = chain[0]
        place = f" ({first.place})" if first.place else ""
        text = f"{first.text[:200]}{place}; the file was missing when this error was handled"
        return Clue("unexplained", text, Confidence.LOW)
    path = match.groups.get("path", "")
    if (segment := _SEGMENT.search(match.text)) and any("resource_tracker" in line.text for line in scan.tail):
        text = (
            f"the shared memory {segment[1]} is gone: Python's resource tracker removed it when one of its users ended"
        )
        return Clue("program-error", text, Confidence.MEDIUM, because="resource_tracker reports leaked shared memory")
    removed = next((each for each in scan.tail if each.line < match.line and _removes(each.text, path)), None)
    if removed is not None and removed.origin != match.origin:
        who = str(removed.origin) or "another process"
        text = f"{who} removed {path} before another one used it"
        ranks = () if removed.origin.rank is None else (removed.origin.rank,)
        return Clue("checkpoint-race", text, Confidence.MEDIUM, ranks, because=f"its line {removed.text[:80]!r}")
    if part := _OF_PACKAGE.search(path):
        text = f"the installed package {part[1]} lacks a file of its own: {path}"
        return Clue("backend-missing", text, Confidence.MEDIUM, because="the file would be inside of the package")
    if chain and _REMOVAL.search(chain[own].source):
        text = f"another process has already removed {path}, or it was never made under this name"
        because = f"the line {chain[own].source.strip()[:80]!r}"
        return Clue("shared-cache-race", text, Confidence.MEDIUM, because=because, also=("program-error",))
    if chain and chain[own].call in _SUBPROCESS and "/" not in path:
        return replace(default(match), text=f"a program that the rank starts is not on this node: {path}")
    lines = [line.text for line in scan.tail if chain and chain[0].line - LAST < line.line < match.line]
    if any(_SAVES.search(text) for text in lines):
        text = f"the directory into which the rank writes is not on this node: {path}"
        return Clue("file-missing", text, Confidence.MEDIUM, also=("checkpoint-race",))
    is_relative = path != "" and not path.startswith("/")
    return default(match, Confidence.MEDIUM if is_relative and match.signature.confidence is Confidence.HIGH else None)


def module_not_found(match: LogMatch, facts: LogFacts) -> Clue:
    """Return a module that is missing; one in a package that is there is of another release, or the package is partial.

    Python names the first part of a dotted name that it does not find.
    """
    module, raised = match.groups["module"], _raised(match, facts)
    package, _, name = module.rpartition(".")
    top, place = module.partition(".")[0], "" if raised is None else raised.place
    if not package or top in _OF_ANYONE:
        return default(match)
    if "._C" in package or ".mpi_lib" in module:
        return Clue("backend-missing", f"{top} was built without {name.lstrip('_')}", Confidence.HIGH)
    if "file" in match.groups:
        text = f"{match.groups['file']} is not the package of this name: a file hides it"
        return Clue("import-path", text, Confidence.MEDIUM)
    if f"/bin/{top}:" in place:
        return Clue("import-path", f"{top} is installed without {module}", Confidence.MEDIUM)
    is_own = f"/{top}/" in place or (place == "" and "." not in package)
    return Clue("package-mismatch", f"the installed {top} has no {module}", Confidence.MEDIUM,
                also=("import-path",) if is_own else ())  # fmt: skip


def _removes(text: str, path: str) -> bool:
    """Return True for a line about the removal of a file, or about that of its directory, which ends the line."""
    whole, of_directory = (rf"(?<![\w./-]){re.escape(each)}" for each in (path, path.rpartition("/")[0] or path))
    is_named = re.search(rf"{whole}(?!\.?[\w-]|/\w)|{of_directory}/?$", text) is not None
    return is_named and _REMOVES.search(text) is not None
