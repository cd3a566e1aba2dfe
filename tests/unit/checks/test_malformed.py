"""Malformed answers of a host are reported for that host; the other hosts are judged."""

import asyncio
import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pylaunch.agent.probe.registry import ReadingKey
from pylaunch.checks import mesh, suite
from pylaunch.checks.check import Check
from pylaunch.checks.occupancy.look import _view
from pylaunch.checks.suite import CHECKS, _look, _survey, judge
from pylaunch.checks.survey import Look, Survey, Wanted
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.diagnosis.finding import Finding, Severity
from pylaunch.probe.answers import MALFORMED
from pylaunch.probe.ask import Answered, Unreachable, interpret, understood
from pylaunch.transport.process import Completed

HOSTS = Cluster(tuple(Host(f"n{number}", f"10.0.0.{number}", devices=(0, 1)) for number in (1, 2, 3)))
WANTED = Wanted(
    workdir="/w", command=("train.py",), script="train.py", port=29500, devices={"n1": (0, 1)},
    pythons=dict.fromkeys(HOSTS.names, "/opt/python"), files=("a.yaml",), checkpoint_dir="/c", infiniband=True,
    peers={host.name: host.address for host in HOSTS.hosts},
)  # fmt: skip
READERS = sorted({reader for check in CHECKS for reader in check.asks(HOSTS["n1"], WANTED)} | set(mesh.READINGS))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | st.text(max_size=5)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip


def survey(readings: dict[str, dict[str, Any]]) -> Survey:
    return Survey(HOSTS, WANTED, {name: Look(found) for name, found in readings.items()})


@settings(max_examples=60)
@given(st.data())
def test_every_check_tolerates_any_answer_of_one_host(data: st.DataObject) -> None:
    values = itertools.cycle(data.draw(st.lists(JSON, min_size=5, max_size=5)))
    judge(survey({"n1": {}, "n2": dict(zip(READERS, values, strict=False)), "n3": {}}), CHECKS)


X_Y: ReadingKey[int] = ReadingKey("x.y")


def _counts(found: Survey) -> Iterator[Finding]:
    for host, count in found.measured(X_Y).items():
        if count + 0 > 1:
            yield Finding("x.y", Severity.WARN, (host,), "many")


COUNTS = Check("x.y", "counted", "why", "threshold", Severity.WARN, lambda host, wanted: {"x.y": None}, _counts)


def test_answers_that_cannot_be_judged_pass_no_check() -> None:
    found = judge(survey({"n1": {"x.y": 5}, "n2": {"x.y": {}}, "n3": {"x.y": 0}}), [COUNTS])
    assert [(one.severity, one.hosts) for one in found] == [(Severity.WARN, ("n1",)), (Severity.UNKNOWN, HOSTS.names)]
    assert "the answers of these hosts cannot be compared (TypeError" in found[1].text


def test_a_host_that_leaves_a_reading_out_passes_no_check(monkeypatch: pytest.MonkeyPatch) -> None:
    asks = {"infiniband.ports": None}
    whole, other = as_answered({"infiniband.ports": []}), as_answered({"host.shm": None, "reach.sudo": None})

    async def answers(*_: object) -> dict[str, Answered]:
        return {"n1": whole, "n2": other, "n3": as_answered({})}

    monkeypatch.setattr(suite, "gather_answers", answers)
    found = asyncio.run(_survey(HOSTS, WANTED, dict.fromkeys(HOSTS.names, asks), 1.0))
    assert all(look.readings.keys() == asks.keys() for look in found.looks.values())
    reported = judge(found, [replace(COUNTS, asks=lambda host, wanted: asks, judge=lambda survey: [])])
    assert [(each.severity, each.hosts, each.text) for each in reported] == [
        (Severity.UNKNOWN, ("n2", "n3"), "counted: its answer lacks this reading")
    ]


@pytest.mark.parametrize(
    "stdout",
    ["{}", "{bye}", "{" * 100_000, '{"readings": 5}', '{"readings": {"x.y": 1e999}}', '{"readings": {"x.y": {}}}',
     '{"readings": {"x.y": {"value": 1, "seconds": null}}}', '{"a":' * 100_000],
    ids=lambda text: text[:30],
)  # fmt: skip
def test_an_invalid_answer_makes_its_host_unreachable(stdout: str) -> None:
    answer = interpret(HOSTS["n1"], Completed(("ssh",), 0, stdout, ""))
    read = answer if isinstance(answer, Unreachable) else understood(answer, _look)  # type: ignore[arg-type]
    assert isinstance(read, Unreachable)
    assert read.reason.startswith("its answer to the probe is not understood")


USE = ("gpu.smi", "occupants.processes", "lease.holders")


def as_answered(values: dict[str, Any]) -> dict[str, Any]:
    return {"readings": {name: {"value": value, "seconds": 0.1} for name, value in values.items()}}


@given(st.dictionaries(st.sampled_from(USE), JSON, max_size=3))
def test_any_answer_becomes_a_complete_view_or_is_refused(readings: dict[str, Any]) -> None:
    try:
        view = _view(as_answered({**dict.fromkeys(USE), **readings}))
    except MALFORMED:
        return
    json.dumps(view.cards)
    assert all(card["index"] >= 0 for card in view.cards)
