"""Rank behind victims: the one without an error, or that never came. Pure.

Nobody is named where two ranks may be the one. The text shows the last line of the rank that is named.
"""

from __future__ import annotations

import re
from collections import defaultdict
from signal import SIGABRT

from pylaunch.base.dataclass import replace
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.hostset import named_ranks
from pylaunch.model.text.sanitise import visible_line
from pylaunch.verdict.logs.clue import Clue
from pylaunch.verdict.logs.facts import LogFacts
from pylaunch.verdict.logs.scan import LogMatch
from pylaunch.verdict.logs.signature import Role
from pylaunch.verdict.logs.victims.rank_ends import AT_WORK, ENDED, LONGEST_LINE, SIGNALS, STOPS, RankEnds
from pylaunch.verdict.logs.victims.timeouts import TIMEOUTS

_KEY = re.compile(r"(?://(?:cpu|gloo)//\d{1,9}/|rank[_:]?)(\d{1,7})\b|//cuda//\d{1,9}()\b")
_OF_A_GROUP = re.compile(r"/default_pg/\d{1,9}//(?P<group>\d{1,9})//(?:cpu|gloo|cuda)//\d{1,9}/(?P<member>\d{1,7})\b")
"""Key of a group of some ranks. Its last number counts the members of the group."""

_FAILS = re.compile(
    r"(?i)\b(?:crash\w{0,4}|stop(?:s|ped|ping)?|abort\w{0,4}|exit\w{0,3}|quit\w{0,4}|giv\w{2,3} up"
    r"|nan|fail\w{0,5}|error|fatal|mismatch|differ\w{0,3}|cannot|can't|missing|not found"
    r"|invalid|denied|refused|no space|unable)\b|\w(?:error|exception): "
)
"""Words of a last line that shows why its rank stopped."""

_SIGNALLED = re.compile(
    r"(?i)\b(?:got|caught|received|handling) (?:a |the )?(?:(?:signal )?SIG(?:TERM|INT|HUP|USR[12])|signal \d{1,2})\b"
    r"|\bpreempt(?:ed|ion)\b"
)
_WAITS = (*TIMEOUTS, "group-timeout", "c10d-wait-timeout", "c10d-store-socket-timeout", "nccl-uniqueid-store")


def read_silent(facts: LogFacts) -> Clue | None:
    """Return the rank behind the victims in the logs; None where their lines do not show it."""
    ends = facts.ends
    if sizes := facts.of("gloo-size-mismatch"):
        text = "ranks call a collective with different sizes, or different collectives"
        return Clue("collective-mismatch", f"{text}: {visible_line(sizes[0].text)[:LONGEST_LINE]}", Confidence.MEDIUM)
    return of_report(ends) or _of_key(facts, ends) or _of_one(facts, ends)


def with_rank(clue: Clue, ends: RankEnds, match: LogMatch) -> Clue:
    """Return a clue about some rank, a killed or a missing one, with the rank that the logs show."""
    if clue.ranks or clue.cause not in ("killed", "native-crash", "rank-missing"):
        return clue
    is_listed = clue.cause == "killed" and "failed (exitcode" not in match.text
    if is_listed and ends.first is not None and ends.first.code != -9:
        return replace(clue, role=Role.WRAPPER)  # The launcher killed it after the failure of another rank.
    if clue.cause == "rank-missing":
        if len(ends.silent) != 1 or not ends.erring | ends.victims or ends.silent[0] not in ends.last:
            return clue
        text = f"{clue.text}; rank {ends.silent[0]} is not among those that failed{ends.shown_last(ends.silent[0])}"
        return replace(clue, text=text, ranks=ends.silent)
    reported = of_report(ends)
    if reported is not None and reported.cause == clue.cause:
        return reported
    is_abort = clue.cause == "native-crash" and ends.first is not None and ends.first.code == -SIGABRT
    return replace(clue, ranks=(ends.first.rank,)) if is_abort and ends.first is not None else clue


def of_report(ends: RankEnds) -> Clue | None:
    """Return the rank that a launcher saw end first, unless it is a victim by its own lines."""
    first = ends.first
    if first is None or first.rank in ends.victims or first.code == 0:
        return None
    if first.rank in ends.erring or (first.code == 1 and ends.is_anonymous):
        return None
    if first.rank not in ends.last and not ends.victims:
        return None  # No line of any rank is there.
    cause, signal = SIGNALS.get(-first.code, ("rank-silent-end", "SIGABRT" if first.code == -SIGABRT else ""))
    how = (
        f"was ended by {signal or f'signal {-first.code}'}"
        if first.code < 0
        else f"ended first, with exit code {first.code}"
    )
    line = ends.last.get(first.rank)
    if line is not None and ENDED.search(line.text) and first.code != -9:
        cause, how = "uneven-data", f"left before the others, and {how}"
    elif first.code == -SIGABRT:
        return None  # The message of an abort is somewhere in the log.
    says = first.rank in ends.errors or (line is not None and _FAILS.search(line.text) is not None)
    text = f"rank {first.rank} {how}{'' if says else ', and printed no error'}{ends.shown_last(first.rank)}"
    because = "the launcher reports it as the first failure"
    if says and not signal:
        cause = "unexplained"
    return Clue(cause, text, Confidence.MEDIUM, (first.rank,), because=because)


def _of_key(facts: LogFacts, ends: RankEnds) -> Clue | None:
    """Return the rank whose key in the store others waited for in vain."""
    owners: dict[int, set[int]] = defaultdict(set)
    for match in facts.of("c10d-wait-timeout"):
        if found := _KEY.search(match.groups["keys"]):
            owners[int(found[1] or 0)].add(match.line)
    if groups := [
        each for match in facts.of("c10d-wait-timeout") if (each := _OF_A_GROUP.search(match.groups["keys"]))
    ]:
        text = f"member {groups[0]['member']} of process group {groups[0]['group']} never joined it"
        return Clue("rank-missing", text, Confidence.MEDIUM, because="the key has the number of a member of that group")
    missing = tuple(rank for rank in sorted(owners) if rank not in ends.victims)
    if len(missing) != 1 or (len(ends.silent) == 1 and ends.silent != missing):
        return None
    rank = missing[0]
    text = f"rank {rank} never joined the group: the others waited for its key in the store{ends.shown_last(rank)}"
    return Clue("rank-missing", text, Confidence.HIGH, missing, because="the key ends with its number")


def _of_one(facts: LogFacts, ends: RankEnds) -> Clue | None:
    """Return the only rank without an error."""
    if len(ends.silent) != 1 or not ends.victims or ends.is_anonymous:
        return None
    rank, line = ends.silent[0], ends.last.get(ends.silent[0])
    timeouts = facts.timeouts
    if timeouts.reporters and not facts.of("gloo-timeout") and timeouts.silent != (rank,):
        return None  # It may be no member of the group that waited.
    others = named_ranks(tuple(sorted(ends.victims)))
    have_waited = any(each in facts.ids for each in _WAITS)
    lost = (
        "waited in a collective until it timed out"
        if have_waited
        else f"lost {'their connections' if len(ends.victims) > 1 else 'its connection'}"
    )
    if line is None:
        return None
    shown = ends.shown_last(rank)
    if _SIGNALLED.search(line.text):
        if any(each.file == line.file and each.line < line.line for each in facts.of(STOPS)):
            return None  # The signal of its launcher, after the failure of another rank.
        text = f"rank {rank} was stopped by a signal from outside, while {others} {lost}{shown}"
        return Clue("stopped-from-outside", text, Confidence.MEDIUM, (rank,), because="its last line names the signal")
    if rank in ends.errors and not have_waited and not ENDED.search(line.text):
        text = f"rank {rank} ended after an error of its own, while {others} {lost}{shown}"
        return Clue("unexplained", text, Confidence.MEDIUM, (rank,))
    if ENDED.search(line.text):
        text = f"rank {rank} ended in order, while {others} {lost}{shown}"
        return Clue("uneven-data", text, Confidence.MEDIUM, (rank,), because="its last line is that of an end")
    if have_waited and rank == 0 and AT_WORK.search(line.text):
        text = f"rank 0 worked alone, while {others} {lost}{shown}"
        return Clue("rank0-long-work", text, Confidence.MEDIUM, (rank,), because="its last line shows the work")
    if rank in ends.stopped and not have_waited:
        return None  # It was there when the others had lost a connection.
    no_error = "stopped after an error" if rank in ends.errors or _FAILS.search(line.text) else "printed no error"
    text = f"rank {rank} {no_error}, while {others} {lost}{shown}"
    return Clue("rank-absent" if have_waited else "rank-silent-end", text, Confidence.MEDIUM, (rank,))
