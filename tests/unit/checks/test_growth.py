"""The work of judging a survey, by the number of hosts."""

from typing import Any

import pytest

from pylaunch.checks import suite
from pylaunch.checks.result import result
from pylaunch.checks.survey import Look, Survey
from pylaunch.model.cluster import Cluster, Host
from tests.unit.checks import network_surveys


class CountedLooks(dict[str, Look]):
    """Looks that count how often one of them is taken."""

    taken = 0

    def __getitem__(self, name: str) -> Look:
        self.taken += 1
        return super().__getitem__(name)


def taken(hosts: int, monkeypatch: pytest.MonkeyPatch) -> int:
    cluster = Cluster(tuple(Host(f"n{number}", f"10.0.0.{number}") for number in range(1, hosts + 1)))
    monkeypatch.setattr(network_surveys, "CLUSTER", cluster)
    whole = network_surveys.survey(cluster)
    looks = CountedLooks(whole.looks)
    counted = Survey(cluster, whole.wanted, looks)
    assert result(counted, suite.CHECKS, suite.judge(counted, suite.CHECKS), 1.0).findings == ()
    return looks.taken


def test_readings_of_a_host_are_collected_a_fixed_number_of_times_however_many_pairs_are_judged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert taken(12, monkeypatch) == 3 * taken(4, monkeypatch)


def test_judging_complete_looks_builds_no_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    for check in suite.CHECKS:
        asks = check.asks

        def counted(host: Host, wanted: Any, asks: Any = asks) -> Any:
            asked.append(host.name)
            return asks(host, wanted)

        monkeypatch.setitem(check.__dict__, "asks", counted)
    whole = network_surveys.survey()
    suite.judge(whole, suite.CHECKS)
    assert asked == []
