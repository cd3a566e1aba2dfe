"""Comparison of the clocks of all hosts."""

from collections.abc import Iterable
from statistics import median

from pylaunch.agent.probe.readers.hosts import host as clock_readers
from pylaunch.checks import mesh
from pylaunch.checks.check import AtStart, Check, asks
from pylaunch.checks.survey import Survey
from pylaunch.model.diagnosis.finding import Finding, Severity

WARN_S = 0.1
"""Above this offset, merged logs of several hosts are in the wrong order."""

FAIL_S = 5.0
"""torchelastic's rendezvous takes a node for dead whose heartbeat is three times five seconds old, by the reader's own
clock (torch 2.13, dynamic_rendezvous.py, keep_alive_interval); certificates and object stores refuse not much later."""

UNSYNCHRONISED = "Not synchronised"
TIME_SYNC = "pylaunch provision --roles time_sync"


def _offset(survey: Survey) -> Iterable[Finding]:
    measured = survey.measured(mesh.OFFSET)
    if len(measured) < 2:
        return
    # Include the controller's clock: two hosts alone do not show which one is wrong.
    usual = median([0.0, *(found["seconds"] for found in measured.values())])
    for host, found in measured.items():
        away, uncertainty = found["seconds"] - usual, found["uncertainty"]
        surely = abs(away) - uncertainty
        side = "ahead of" if away > 0 else "behind"
        text = f"its clock is {_seconds(away)} {side} the others, ± {_seconds(uncertainty)}"
        if surely > FAIL_S:
            yield Finding("time.offset", Severity.FAIL, (host,), text, fix=TIME_SYNC, role="time_sync")
        elif surely > WARN_S:
            yield Finding("time.offset", Severity.WARN, (host,), text, fix=TIME_SYNC, role="time_sync")
        elif uncertainty > WARN_S:
            yield Finding(
                "time.offset", Severity.UNKNOWN, (host,),
                f"its clock is within {_seconds(abs(away) + uncertainty)} of the others: the connection is too slow to "
                "say more",
            )  # fmt: skip


def _seconds(seconds: float) -> str:
    amount = abs(seconds)
    return f"{amount:.1f} s" if amount >= 1 else f"{amount * 1000:.1f} ms"


def _keeping(survey: Survey) -> Iterable[Finding]:
    for host, found in survey.measured(clock_readers.keeping).items():
        text = _text(found["daemons"], found["chrony"])
        if text is not None and found["may_set"]:
            yield Finding("time.keeping", Severity.WARN, (host,), text, fix=TIME_SYNC, role="time_sync")
        elif text is not None:
            text = f"{text}; it may not set its clock (no CAP_SYS_TIME): the machine that it runs on keeps it"
            yield Finding("time.keeping", Severity.NOTE, (host,), text)


def _text(daemons: list[str], chrony: str | None) -> str | None:
    if not daemons:
        return "no time daemon runs"
    if len(daemons) > 1 and "chronyd" in daemons and "ptp4l" not in daemons:
        return f"several time daemons run and pull at one clock: {', '.join(daemons)}"
    if "chronyd" not in daemons or chrony is None:
        return None
    fields = chrony.split(",")
    if len(fields) < 14:
        return f"chronyd runs and does not answer: {chrony.splitlines()[-1] if chrony else 'no output'}"
    stratum, last_offset, leap = fields[2], float(fields[5]), fields[13]
    if leap == UNSYNCHRONISED:
        return f"chronyd is not synchronised (stratum {stratum}, reference {fields[1] or fields[0]})"
    if abs(last_offset) > WARN_S:
        return f"chronyd's last offset from {fields[1] or fields[0]} was {_seconds(last_offset)} (stratum {stratum})"
    return None


CHECKS = (
    Check(
        "time.offset", "clocks agree",
        "Logs are ordered and causes found by time, and rendezvous declares nodes dead by it.",
        f"median of all hosts and the controller; thresholds: {WARN_S * 1000:g} ms and {FAIL_S:g} s, uncertainty apart",
        Severity.FAIL, asks(mesh.OFFSET), _offset,
        at_start=AtStart.REPORTED,
    ),
    Check(
        "time.keeping", "a time daemon keeps the clock",
        "A clock without a time daemon drifts by seconds in a week.",
        f"chrony's tracking: synchronised, last offset under {WARN_S * 1000:g} ms; one daemon",
        Severity.WARN, asks(clock_readers.keeping), _keeping,
    ),
)  # fmt: skip
