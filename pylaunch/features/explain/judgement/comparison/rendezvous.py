"""Devices that did not join a rendezvous of XLA, by the lines of those that wait in it. Pure.

Forms: xla/service/rendezvous.cc of https://github.com/openxla/xla. The time-out ends the process; a wait without one is
that of a slow start, mostly.
"""

import re
from collections.abc import Iterator

from pylaunch.features.explain.judgement.indications.form import OF_A_FACT, Excerpts, LogExcerpt, LogForm
from pylaunch.features.explain.judgement.indications.indication import Indication
from pylaunch.model.diagnosis.confidence import Confidence

WAITS = LogForm(
    "xla-rendezvous",
    ("This thread has been waiting for", "Termination timeout for `"),
    re.compile(
        r"(?P<state>This thread has been waiting for|Termination timeout for) "
        r"`(?P<key>[^`\n]{1,300})` (?:for|of) \d{1,6} seconds"
        r"(?:.{1,160}Expected (?P<expected>\d{1,6}) threads to join the rendezvous"
        r"(?:, but only (?P<joined>\d{1,6}) of them (?:arrived|joined))?)?"
    ),
    most=OF_A_FACT,
)
FORMS = (WAITS,)

_CLIQUE = re.compile(r" for rank (?P<rank>\d{1,6}); clique=(?:devices=)?\[(?P<devices>[\d, ]{1,400})\]")
_KEY = re.compile(r"RendezvousKey\{.{0,120}?global_devices=\[(?P<devices>[\d, ]{1,400})\]")
_ENDS = "Termination timeout for"


def read(excerpts: Excerpts) -> Iterator[Indication]:
    """Yield the devices that are missing in each rendezvous that timed out."""
    groups: dict[str, list[LogExcerpt]] = {}
    for line in excerpts.get(WAITS.id, ()):
        groups.setdefault(_name(line), []).append(line)
    for name, lines in groups.items():
        ended = [line for line in lines if line.groups["state"] == _ENDS]
        if ended:
            text = f"{_missing(lines)} did not join the rendezvous {name}"
            yield Indication("rank-absent", text, ended[0], 0, Confidence.MEDIUM)


def _name(line: LogExcerpt) -> str:
    """Return the rendezvous that the threads share: its key without the rank, and without the details of its key."""
    key = line.groups["key"]
    if found := _CLIQUE.search(key):
        return f"{key[: found.start()]} of the devices {found['devices']}"
    if found := _KEY.search(key):
        return f"{key[: found.start()].strip()} of the devices {found['devices']}"
    return key.partition(";")[0]


def _missing(lines: list[LogExcerpt]) -> str:
    """Return the devices whose threads do not wait, where the lines show all that do; else their number."""
    cliques = [found for line in lines if (found := _CLIQUE.search(line.groups["key"]))]
    expected = max((int(line.groups["expected"]) for line in lines if "expected" in line.groups), default=0)
    joined = max((int(line.groups["joined"]) for line in lines if "joined" in line.groups), default=0)
    if cliques:
        devices = [each.strip() for each in cliques[0]["devices"].split(",") if each.strip()]
        waiting = {int(found["rank"]) for found in cliques}
        absent = [device for at, device in enumerate(devices) if at not in waiting]
        if len(devices) == expected and absent and len(absent) < len(devices) and joined in (0, len(waiting)):
            return f"device{'s' * (len(absent) > 1)} {', '.join(absent)}"
    return f"{expected - joined} of {expected} threads" if 0 < joined < expected else "a thread"
