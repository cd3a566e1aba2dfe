"""Decide after a failed attempt: another attempt on chosen hosts, or the end. Pure; times are seconds.

A host that was lost, refused, or whose hardware failed is excluded for a while, twice as long each time, and so is the
only host that a hang names with high confidence for a reason of its own: its disk, GPU or network. A failure or a hang
of the program excludes no host: it fails wherever it runs. A spare takes the host's place in the rank order. Several
attempts without progress end the run.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from pylaunch.base import kernel_log
from pylaunch.base.dataclass import dataclass, field
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.diagnosis.hang import HangKind
from pylaunch.model.hostset import fold
from pylaunch.model.outcome import Outcome, Status
from pylaunch.protocol.node_evidence import RankEnd

FRUITLESS = 3
"""Attempts in a row without progress that make a crash loop."""

PROGRESS_S = 120.0
"""Runtime that counts as progress where ranks mark no steps: longer than importing and failing takes."""

COOL_DOWN_S = 600.0
"""Seconds for which a host is excluded the first time."""


HANGING_HOSTS = {
    HangKind.NODE_SILENT: "does not answer",
    HangKind.DISK_WAIT: "a rank waits for its storage",
    HangKind.GPU: "GPU error",
    HangKind.LINK: "network link down",
    HangKind.PATH_BLOCKED: "cut off from other hosts",
}
"""Kinds of hangs whose cause is the host, not the script, with the reason to exclude it."""

HARDWARE = re.compile(
    "uncorrectable ECC error encountered|uncorrectable NVLink error detected|GPU is lost|has fallen off the bus",
    re.IGNORECASE,
)
"""Messages of CUDA and NVML about a broken device (driver_types.h, cudaErrorECCUncorrectable and others)."""


@dataclass(frozen=True)
class Policy:
    """Restarts that the user allows."""

    max_restarts: int
    nodes: int
    """Hosts of a full attempt."""

    min_nodes: int
    """Fewest hosts to continue with."""

    restarts_hangs: bool = False
    """Start again after a hang ended an attempt."""


@dataclass(frozen=True)
class Attempt:
    """An attempt that has ended."""

    hosts: tuple[str, ...]
    """In rank order."""

    outcome: Outcome
    ran_s: float
    """From the release to the end; 0 if nothing was released."""

    refused: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Refusals by host, if no rank was started."""

    progress: int | None = None
    """Furthest step that a rank has marked."""

    @property
    def unfit(self) -> Mapping[str, str]:
        """Return the hosts to exclude from the next attempt, with the reason."""
        reason, failure = self.outcome.reason, self.outcome.first_failure
        found: dict[str, str] = {}
        for host in self.hosts:
            if host in self.outcome.unproven:
                named = reason.startswith((f"{host} lost: ", f"{host} answers, but "))
                found[host] = reason.removeprefix(f"{host} ") if named else "lost"
            elif host in self.refused:
                found[host] = f"refused: {self.refused[host][0]}" if self.refused[host] else "refused"
            elif host in self.outcome.answering and is_restart(self.outcome):
                found[host] = "restarted during the run"
            elif failure is not None and failure.host == host and (fault := hardware_fault(failure)):
                found[host] = f"hardware: {fault}"
            elif self.outcome.hang is not None and (why := hanging_host(self.outcome, host)):
                found[host] = f"hang: {why}"
        return found


@dataclass(frozen=True)
class Again:
    """Start another attempt on these hosts, in rank order."""

    hosts: tuple[str, ...]
    why: str
    """Change of hosts in one line; "" if there is none."""


@dataclass(frozen=True)
class Over:
    """Start no further attempt."""

    why: str
    """Reason in one line; "" if the last attempt ended as it should."""


def next_attempt(
    policy: Policy, hosts: Sequence[str], attempts: Sequence[tuple[float, Attempt]], now: float
) -> Again | Over:
    """Decide what follows `attempts` (end time and attempt, oldest first). `hosts` are all hosts, spares last."""
    last = attempts[-1][1]
    if last.outcome.status in (Status.DONE, Status.STOPPED) or last.outcome.by_hand:
        return Over("")
    if last.outcome.hang is not None and not policy.restarts_hangs:
        return Over("")
    if last.outcome.status is Status.REFUSED and not last.refused:
        return Over("")
    if len(attempts) > policy.max_restarts:
        used = "the one restart is" if policy.max_restarts == 1 else f"all {policy.max_restarts} restarts are"
        return Over(f"{used} used up" if policy.max_restarts else "")
    fruitless = _fruitless([attempt for _, attempt in attempts])
    if fruitless >= FRUITLESS:
        return Over(f"{fruitless} attempts in a row made no progress: a crash loop")
    out = excluded(attempts, now)
    chosen = _chosen(last.hosts, [host for host in hosts if host not in out], policy.nodes)
    if len(chosen) < policy.min_nodes:
        return Over(
            f"{len(chosen)} of {len(hosts)} hosts are left, and the run needs {policy.min_nodes}; left out: "
            + "; ".join(f"{fold(same)} ({why})" for why, same in _by_reason(out).items())
        )
    return Again(chosen, _changes(last.hosts, chosen, out))


def excluded(attempts: Iterable[tuple[float, Attempt]], now: float) -> Mapping[str, str]:
    """Return the hosts that are excluded now, with the reason."""
    strikes: dict[str, int] = {}
    until: dict[str, tuple[float, str]] = {}
    for ended_at, attempt in attempts:
        for host, why in attempt.unfit.items():
            until[host] = (ended_at + COOL_DOWN_S * 2 ** strikes.get(host, 0), why)
            strikes[host] = strikes.get(host, 0) + 1
    return {host: why for host, (end, why) in until.items() if now < end}


def _by_reason(out: Mapping[str, str]) -> Mapping[str, list[str]]:
    hosts: dict[str, list[str]] = {}
    for host, why in out.items():
        hosts.setdefault(why, []).append(host)
    return hosts


def is_restart(outcome: Outcome) -> bool:
    """Return True if the first cause is that nodes were restarted."""
    return bool(outcome.causes) and outcome.causes[0].kind == "node-restarted"


def _fruitless(attempts: Sequence[Attempt]) -> int:
    """Count the last attempts in a row that got no further than those before them."""
    count, best = 0, -1
    for attempt in attempts:
        if attempt.progress is None:
            got_on = attempt.ran_s >= PROGRESS_S
        else:
            got_on = attempt.progress > best
            best = max(best, attempt.progress)
        # The death of a host is no evidence against the job; that of an agent on a host that answers may be.
        outcome = attempt.outcome
        is_host = not outcome.answering or is_restart(outcome)
        if got_on or (outcome.first_failure is None and outcome.hang is None and is_host):
            count = 0
        else:
            count += 1
    return count


def _chosen(before: Sequence[str], available: Sequence[str], nodes: int) -> tuple[str, ...]:
    """Keep available hosts of `before` in their places and fill the gaps with others."""
    others = iter([host for host in available if host not in before])
    places = [host if host in available else next(others, None) for host in before]
    kept = [host for host in places if host is not None]
    return tuple([*kept, *others][:nodes])


def _changes(before: Sequence[str], after: Sequence[str], out: Mapping[str, str]) -> str:
    gone = [host for host in before if host not in after]
    new = [host for host in after if host not in before]
    why = _by_reason({host: out[host] for host in gone if host in out})
    reasons = "; ".join(why) if len(why) == 1 else "; ".join(f"{fold(same)} {text}" for text, same in why.items())
    if gone and new:
        return f"{fold(new)} in place of {fold(gone)}{f': {reasons}' if reasons else ''}"
    if gone:
        return f"without {fold(gone)}{f': {reasons}' if reasons else ''}"
    return f"with {fold(new)}" if new else ""


def hanging_host(outcome: Outcome, host: str) -> str:
    """Return the reason why `host` alone is the cause of the hang that ended the attempt; "" if it is not."""
    finding = outcome.hang
    if finding is None or finding.hosts != (host,) or finding.confidence is not Confidence.HIGH:
        return ""
    if finding.kind is HangKind.DISK_WAIT and any(
        facts.host != host and any(message.kind == kernel_log.SERVER_SILENT for message in facts.kernel)
        for facts in outcome.hosts
    ):
        return ""  # The file server is the cause, and other hosts lose it, too.
    return HANGING_HOSTS.get(finding.kind, "")


def hardware_fault(end: RankEnd) -> str:
    """Return the message about a broken device in the last lines of a rank; "" if there is none."""
    found = HARDWARE.search("\n".join((end.error, *end.last_lines)))
    return found.group(0) if found else ""
