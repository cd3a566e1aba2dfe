"""Decide which rank or node caused the failure of a run. Pure.

A rank that lost its connection to another one, or waited for it in vain, is a victim. Victims are quoted, never named
as the cause. Where nothing else is known, nobody is named. In this order:

1. a rank that failed on its own before any rank was a victim, or was killed by a signal; nobody is named where
   several failed alike;
2. a node that is lost, or the lost agent of a host that answers; it precedes a rank whose text is about other ranks or
   the network;
3. a rank whose process is stopped (SIGSTOP, a debugger);
4. ranks that exited with code 0 while others still waited for them, first one that printed an exception;
5. data of an unexpected size: ranks called different collectives, and nobody is named;
6. a rank that failed on its own later: its text is shown, for a person to judge;
7. the one rank that had not ended when all others had, unless its last lines are those of a victim;
8. a launcher, where no rank failed.

Facts of the hosts (`host_causes`) add causes, and precede the observations of 6 and 7 where they are likely.
Confidence only falls when evidence is missing: it is low unless the fate of every rank is known.
"""

import re
from collections.abc import Iterator, Mapping
from signal import Signals

from pylaunch.base.dataclass import dataclass, replace
from pylaunch.model.diagnosis.cause import FailureCause, Named, RejectedCause
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.hostset import fold, fold_ranks
from pylaunch.model.slurm_job import ended_job
from pylaunch.protocol.examination import STOPPED_STATES
from pylaunch.protocol.node_evidence import SIGNALS_TO_ALL, RankEnd
from pylaunch.verdict.causes.cause_kinds import advised
from pylaunch.verdict.causes.host_causes import host_causes, lines_about, only
from pylaunch.verdict.causes.host_facts import unanswered_connections
from pylaunch.verdict.failure_evidence import SAME_MOMENT_S, Evidence, lost_contact, precedes, seconds
from pylaunch.verdict.rank_end import described, kind_of, may_await_others, may_be_of_its_gpu, sounds_like_a_victim

STATES = {
    "R": "running",
    "S": "sleeping",
    "D": "waiting for a disk, a network file system or a driver (state D)",
    "Z": "a zombie",
}
RANKED = tuple(Confidence)
_CREDIBLE = (Confidence.HIGH, Confidence.MEDIUM)
_PASSED_ON = re.compile(r"rank (\d{1,9}) (?:ended with exit code|was killed by) ")
"""Failure of a rank in the words of an agent (`agent/run/worker_group.py`)."""

MOST_REASONS = 3
ANOTHER_SIZE = "received data of another size"
"""Beginning of the symptom of a rank whose collective does not match that of its peer."""


@dataclass(frozen=True)
class Verdict:
    """Judgement of a failure: its ranked causes, and the rank or node at fault."""

    reason: str
    named: Named | None
    """None where the evidence names nobody."""

    shown: RankEnd | None
    """End whose last lines are shown: that of the named rank, else that of the first victim."""

    causes: tuple[FailureCause, ...] = ()
    """The most credible first."""

    rejected: tuple[RejectedCause, ...] = ()


def judge(evidence: Evidence) -> Verdict | None:
    """Return the verdict on the known ends; None if no rank failed on its own."""
    evidence = evidence.with_set_clocks
    failed = evidence.failures
    if not failed:
        return None
    observed = _observed(evidence, failed)
    found, rejected = host_causes(evidence, failed[0])
    observed_causes = [] if observed.cause is None else [observed.cause]
    causes = [_capped(each, evidence) for each in (*observed_causes, *found)]
    ranked = sorted(causes, key=lambda each: RANKED.index(each.confidence))
    rejected += _rejected_ends(failed, ranked[0] if ranked else None)
    if not ranked or (observed.cause is None and ranked[0].confidence is Confidence.LOW):
        return Verdict(observed.reason, None, observed.shown, tuple(ranked), tuple(rejected))
    top = ranked[0]
    if observed.cause is not None and top.kind == observed.cause.kind and top.reason == observed.cause.reason:
        return Verdict(observed.reason, top.named, observed.shown, tuple(ranked), tuple(rejected))
    first = next((end for end in failed if end.symptom), failed[0])
    effect = _symptom_of(first) if first.symptom else f"{first.who} {described(first)}"
    return Verdict(f"{top.reason}; {effect}", top.named, first, tuple(ranked), tuple(rejected))


def judge_lost(evidence: Evidence) -> Verdict:
    """Return the verdict on a run without the end of a failed rank, of which at least one node is lost.

    Agents notify each other of the failure of a rank, and the agent that saw it may be the one that is lost.
    """
    observed = _of_lost(evidence)
    assert observed.cause is not None
    found = _capped(observed.cause, evidence)
    host, _, failure = evidence.stopping.partition(": ")
    rank = int(failed[1]) if (failed := _PASSED_ON.match(failure)) else None
    if {*evidence.lost} != {host} or rank not in evidence.ranks[host]:  # It may be a victim of another lost node.
        return Verdict(observed.reason, found.named, None, (found,))
    text = f"{failure.replace(f'rank {rank}', f'rank {rank} on {host}', 1)}, as its agent reported to the other nodes"
    cause = _capped(FailureCause("rank-failed", text, Confidence.MEDIUM, Named(host, rank)), evidence)
    return Verdict(f"{text}; later: {observed.reason}", cause.named, None, (advised(cause),))


@dataclass(frozen=True)
class _Observation:
    """Judgement on the ends of ranks alone."""

    reason: str
    shown: RankEnd | None
    cause: FailureCause | None


def _observed(evidence: Evidence, failed: list[RankEnd]) -> _Observation:
    ranks = [end for end in failed if end.rank is not None]
    victims = [end for end in ranks or failed if end.symptom]
    own = [end for end in ranks if not end.symptom]
    first = victims[0] if victims else None
    if own and (first is None or own[0].time <= first.time + SAME_MOMENT_S):
        return _of_first(evidence, own)
    if killed := [end for end in own if _is_killed(end)]:
        return _of_end(evidence, killed[0], Confidence.MEDIUM)
    if evidence.lost:
        return _of_lost(evidence)
    if first is None:
        return _of_end(evidence, failed[0], Confidence.MEDIUM)
    return (
        _stopped(evidence, first)
        or _left(evidence, first)
        or _disagreement(evidence, victims)
        or (_of_end(evidence, own[0], Confidence.LOW) if own else None)
        or _alone(evidence, first)
        or _Observation(f"no rank is named: {_symptom_of(first)}", first, None)
    )


def _capped(each: FailureCause, evidence: Evidence) -> FailureCause:
    return each if evidence.is_complete else replace(each, confidence=Confidence.LOW)


def _is_killed(end: RankEnd) -> bool:
    return end.signal is not None and end.signal != Signals.SIGABRT


def _of_first(evidence: Evidence, own: list[RankEnd]) -> _Observation:
    """Judge the earliest failures with a cause of their own: several at once have no order."""
    rivals = [end for end in own if not precedes(own[0], end)]
    best = min(_weight(end) for end in rivals)
    rivals = [end for end in rivals if _weight(end) == best]
    end = rivals[0]
    if best == _DOUBTFUL and evidence.lost:
        return _of_lost(evidence)
    if len(set(map(_form, rivals))) > 1:
        texts = "; ".join(f"{each.who} {described(each)}" for each in rivals[:4])
        text = f"{len(rivals)} ranks failed at the same moment, within the uncertainty of the clocks: {texts}"
        lines = [line for each in rivals for line in lines_about(evidence, each)]
        found = FailureCause("rank-failed", text, Confidence.LOW, None, tuple(lines[:6]))
        return _Observation(text, end, advised(found))
    alike = [each for each in own if _form(each) == _form(end)]
    if len(alike) > 1:
        return _of_alike(evidence, alike)
    if may_await_others(end) and not evidence.differences and (count := _unseen(evidence, end)):
        others = f"the other {count} ranks were" if count > 1 else "the other rank was"
        text = (
            f"{end.who} failed first: {described(end)}; nothing in this error is about one rank, and {others} stopped"
        )
        found = FailureCause(kind_of(end), text, Confidence.MEDIUM, None, tuple(lines_about(evidence, end)))
        return _Observation(text, end, advised(found))
    is_own_choice = bool(end.error) and end.exit_code not in (None, 1)  # An exception that nobody catches gives 1.
    is_sure = len(rivals) == 1 and best < _DOUBTFUL and not is_own_choice
    return _of_end(evidence, end, Confidence.HIGH if is_sure else Confidence.MEDIUM)


def _unseen(evidence: Evidence, first: RankEnd) -> int:
    """Return the number of ranks besides that of `first` if all were stopped while they had yet to begin; else 0.

    A rank with a step or a process group has begun, and may be past the line at which the first one failed.
    """
    others = {rank for ranks in evidence.ranks.values() for rank in ranks if rank != first.rank}
    begun = {state.rank for states in evidence.states.values() for state in states if state.step is not None}
    begun.update(view.rank for view in evidence.views if view.groups or view.step is not None)
    ended = {end.rank for end in evidence.ends if end.step is not None or not end.stopped}
    return 0 if others & (begun | ended) else len(others)


def _form(end: RankEnd) -> tuple[int | None, int | None, str]:
    """Return the exit code, the signal and the error of an end, without what differs between equal failures.

    That are numbers, addresses, random names, the name of the host, and the directories of a path.
    """
    text = described(replace(end, step=None, exit_code=0, signal=None))
    text = re.sub(rf"(?<!\w){re.escape(end.host)}(?!\w)", "#", text)
    return end.exit_code, end.signal, _NUMBER.sub("#", _DIRECTORIES.sub("/", text))


def _of_alike(evidence: Evidence, ends: list[RankEnd]) -> _Observation:
    """Judge failures that differ in nothing but their ranks: none of them is the cause of the others."""
    count, first = sum(map(len, evidence.ranks.values())), ends[0]
    hosts = list(dict.fromkeys(end.host for end in ends))
    ranks = f"{fold_ranks([end.rank for end in ends if end.rank is not None])} on {fold(hosts)}"
    who = f"all {count} ranks" if len(ends) == count else f"{len(ends)} of {count} ranks ({ranks})"
    same_step = first if len({end.step for end in ends}) == 1 else replace(first, step=None)
    texts = {described(replace(end, step=None)) for end in ends}
    as_one = f" (of {first.who})" if len(texts) > 1 else ""
    text = f"{who} failed alike: {described(same_step)}{as_one}"
    confidence = Confidence.HIGH if len(ends) == count else Confidence.MEDIUM
    if _weight(first) == _DOUBTFUL:
        confidence = Confidence.LOW if _of_hosts(evidence, first) else Confidence.MEDIUM
    lines = [line for end in ends for line in lines_about(evidence, end)]
    found = FailureCause(kind_of(first), text, confidence, None, (*lines[:6], *_others(evidence, None)))
    return _Observation(text, first, advised(found))


_DIRECTORIES = re.compile(r"(?:/[^\s/'\":,;()]+)+/(?=[^\s/'\":,;()])")
_NUMBER = re.compile(r"0x[0-9a-f]+|\b(?=[a-f]*\d)[0-9a-f]{6,}\b|\btmp\w+|\d+")
_DOUBTFUL = 3


def _weight(end: RankEnd) -> int:
    """Return how well an end explains itself: 0 is best, from _DOUBTFUL on it reads like an effect of another rank."""
    if end.out_of_memory is not None and end.out_of_memory.certain:
        return 0
    if _is_killed(end):
        return 1
    return _DOUBTFUL if sounds_like_a_victim(end) else 2


def _of_end(evidence: Evidence, end: RankEnd, confidence: Confidence) -> _Observation:
    reason = f"{end.who} {described(end)}"
    if end.signal in SIGNALS_TO_ALL and end.host == evidence.signalled:
        text = f"{evidence.stopping}; {reason}"
        found = FailureCause(
            "signalled", text, Confidence.MEDIUM, Named(end.host, None), tuple(lines_about(evidence, end))
        )
        return _Observation(text, end, advised(found))
    kind = "launcher-failed" if end.rank is None else kind_of(end)
    of_hosts = _of_hosts(evidence, end)
    if kind == "rank-failed" and may_be_of_its_gpu(end):
        is_broken = any(each.kind == "gpu" and each.named == Named(end.host, None) for each in of_hosts)
        kind = "gpu" if is_broken else kind
    if _weight(end) == _DOUBTFUL and any(each.named is None or each.named.host != end.host for each in of_hosts):
        confidence = Confidence.LOW
    if end.out_of_memory is not None and not end.out_of_memory.certain and confidence is Confidence.HIGH:
        confidence = Confidence.MEDIUM
    lines = (*lines_about(evidence, end), *_others(evidence, end.rank))
    return _Observation(reason, end, advised(FailureCause(kind, reason, confidence, Named(end.host, end.rank), lines)))


def _of_hosts(evidence: Evidence, end: RankEnd) -> list[FailureCause]:
    """Return the causes that facts of hosts before `end` make likely."""
    return [each for each in host_causes(evidence, end)[0] if each.confidence in _CREDIBLE]


def _others(evidence: Evidence, rank: int | None) -> Iterator[str]:
    """Yield the effects on ranks other than `rank`, folded by their text."""
    effects: dict[str, list[int]] = {}
    for other in evidence.failures:
        if other.symptom and other.rank is not None and other.rank != rank:
            effects.setdefault(other.symptom, []).append(other.rank)
    for text, ranks in effects.items():
        yield f"{'rank' if len(ranks) == 1 else 'ranks'} {fold_ranks(ranks)} {text}"


def _rejected_ends(failed: list[RankEnd], top: FailureCause | None) -> list[RejectedCause]:
    found = []
    for end in failed:
        if top is not None and top.named is not None and (end.host, end.rank) == (top.named.host, top.named.rank):
            continue
        if end.symptom:
            found.append(RejectedCause(f"{end.who} {end.symptom}", "the effect of another failure on this rank"))
        elif precedes(failed[0], end):
            why = f"{seconds(end.time - failed[0].time)} after the first failure"
            found.append(RejectedCause(f"{end.who} {described(end)}", why))
    return found


def _symptom_of(victim: RankEnd) -> str:
    return f"{victim.who} {victim.symptom}"


def _of_lost(evidence: Evidence) -> _Observation:
    hosts = sorted(evidence.lost)
    why = evidence.lost[hosts[0]]
    if all(ended_job(each) for each in evidence.lost.values()):
        # All nodes of the job are victims of whoever ended it.
        found = FailureCause("job-ended", why, Confidence.HIGH, None)
        return _Observation(why, None, advised(found, hosts, job=ended_job(why)))
    silent = [each for each in hosts if each not in evidence.answering]
    if not silent:
        reason = _answering({each: evidence.lost[each] for each in hosts})
        is_restart = evidence.restarted.issuperset(hosts)
        kind, certainty = ("node-restarted", Confidence.HIGH) if is_restart else ("agent-lost", Confidence.MEDIUM)
        found = advised(FailureCause(kind, reason, certainty, only(hosts)), hosts)
        if all("is stopped (SIGSTOP)" in each for each in evidence.lost.values()):
            stopped = advised(replace(found, kind="rank-stopped"), hosts)
            found = replace(found, question=stopped.question, hint=stopped.hint)
        return _Observation(reason, None, found)
    reason = lost_contact(silent, evidence.lost[silent[0]], answer=False)
    if is_signalled := evidence.signalled in hosts:
        reason += f"; before, {evidence.stopping.partition(': ')[2] if len(hosts) == 1 else evidence.stopping}"
    unanswered = sorted(unanswered_connections(evidence.hosts), key=str)
    witnesses = {each.host: str(each) for each in reversed(unanswered) if each.peer in evidence.lost}
    lines = sorted(witnesses.values())
    lines += [lost_contact([each], evidence.lost[each], answer=True) for each in hosts if each in evidence.answering]
    confidence = Confidence.HIGH if witnesses and len(hosts) == 1 else Confidence.MEDIUM
    found = FailureCause("node-lost", reason, confidence, only(hosts), tuple(lines[:6]))
    found = advised(found, silent)
    if is_signalled:
        signalled = advised(replace(found, kind="signalled"), hosts)
        found = replace(found, question=signalled.question, hint=signalled.hint)
    elif found.question and (known := [each for each in _OF_SSH if each in evidence.lost[silent[0]]]):
        found = replace(found, question=_OF_SSH[known[0]].format(host=fold(silent)))
    return _Observation(reason, None, found)


def _answering(lost: Mapping[str, str]) -> str:
    """Return one clause for each reason why agents are lost on hosts that answer, the first MOST_REASONS of them."""
    alike: dict[str, list[str]] = {}
    for host, why in lost.items():
        alike.setdefault(why, []).append(host)
    clauses = [lost_contact(names, why, answer=True) for why, names in alike.items()]
    rest = [name for names in [*alike.values()][MOST_REASONS:] for name in names]
    return "; ".join([*clauses[:MOST_REASONS], *([f"the agents on {fold(rest)} are lost, too"] if rest else [])])


_OF_SSH = {
    "no SSH server answers": "was {host} restarted or shut down, or did only its sshd end (its address answers)?",
    "host key changed": "was {host} installed again, or does its address lead to another machine?",
}
"""Words of a failed connection to a lost node → the question that fits better than whether the node is up."""


def _stopped(evidence: Evidence, first: RankEnd) -> _Observation | None:
    states = ((host, state) for host, found in sorted(evidence.states.items()) for state in found)
    found = [(host, state) for host, state in states if state.state in STOPPED_STATES]
    if not found:
        return None
    host, state = found[0]
    if len(found) == 1:
        text = f"rank {state.rank} on {host} is stopped (state {state.state}: SIGSTOP or a debugger)"
        text += "" if state.step is None else f" after step {state.step}"
        return _judged(evidence, first, FailureCause("rank-stopped", text, Confidence.HIGH, Named(host, state.rank)))
    who = fold_ranks([state.rank for _, state in found])
    hosts = fold({host for host, _ in found})
    text = f"ranks {who} on {hosts} are stopped (SIGSTOP or a debugger)"
    return _judged(evidence, first, FailureCause("rank-stopped", text, Confidence.MEDIUM))


def _left(evidence: Evidence, first: RankEnd) -> _Observation | None:
    ends = [end for end in evidence.ends if end.rank is not None and end.exit_code == 0 and not end.stopped]
    ends = [end for end in ends if not end.symptom]
    gone = sorted((end for end in ends if precedes(end, first, SAME_MOMENT_S)), key=lambda end: (end.time, end.host))
    if not gone:
        return None
    if raised := [end for end in gone if end.error]:
        return _of_end(evidence, raised[0], Confidence.MEDIUM if len(raised) == 1 else Confidence.LOW)
    before_s = max(0.0, first.time - gone[-1].time)
    when = f"{seconds(before_s)} before {_symptom_of(first)}"
    if len(gone) == 1:
        end = gone[0]
        after = "" if end.step is None else f" after step {end.step}"
        text = f"{end.who} exited with code 0{after}, {when}"
        named = Named(end.host, end.rank)
        return _judged(evidence, first, FailureCause("exited-early", text, Confidence.MEDIUM, named))
    who = fold_ranks([end.rank for end in gone if end.rank is not None])
    text = f"ranks {who} exited with code 0, the last {when}"
    return _judged(evidence, first, FailureCause("exited-early", text, Confidence.LOW))


def _disagreement(evidence: Evidence, victims: list[RankEnd]) -> _Observation | None:
    """Conclude from data of an unexpected size that ranks called different collectives.

    The text shows who received it, not who deviates from the others: nobody is named.
    """
    first = next((end for end in victims if end.symptom.startswith(ANOTHER_SIZE)), None)
    if first is None:
        return None
    text = "ranks called different collectives, or the same one with different sizes"
    return _judged(evidence, first, FailureCause("ranks-disagree", text, Confidence.MEDIUM))


def _alone(evidence: Evidence, first: RankEnd) -> _Observation | None:
    """Name the one rank that had not ended; none if several had not, or a node did not report its ranks.

    A rank whose last lines are those of a victim has failed like the others, and is not over yet.
    """
    ended = {end.rank for end in evidence.ends if not end.stopped}
    waiting = [(host, state) for host, states in evidence.states.items() for state in states if state.rank not in ended]
    accounted = ended | {state.rank for _, state in waiting}
    if len(waiting) != 1 or any(not ranks <= accounted for ranks in evidence.ranks.values()):
        return None
    host, state = waiting[0]
    if state.symptom:
        return None
    parts = [STATES.get(state.state, f"state {state.state}" if state.state else "in an unknown state")]
    parts += [f"last output {seconds(state.silent_s)} before"] if state.silent_s is not None else ["no output"]
    parts += [f"at step {state.step}"] if state.step is not None else []
    text = f"rank {state.rank} on {host} alone had not ended ({', '.join(parts)})"
    if state.error:
        found = FailureCause("rank-failed", f"{text}: {state.error}", Confidence.MEDIUM, Named(host, state.rank))
        return _judged(evidence, first, found)
    return _judged(evidence, first, FailureCause("rank-silent", text, Confidence.LOW, Named(host, state.rank)))


def _judged(evidence: Evidence, first: RankEnd, found: FailureCause) -> _Observation:
    """Return an observation about ranks that the victim `first` waited for."""
    lines = tuple(_others(evidence, None if found.named is None else found.named.rank))
    whole = advised(replace(found, evidence=lines))
    effect = "" if found.kind == "exited-early" else f"; {_symptom_of(first)}"
    return _Observation(f"{found.reason}{effect}", first, whole)
