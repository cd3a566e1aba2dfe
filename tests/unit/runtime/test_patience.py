import pytest

from pylaunch.runtime.patience import MissingRanksError, Patience, folded, gather


class World:
    """Ranks that connect at given times of a simulated clock."""

    def __init__(self, arrivals: dict[int, float]) -> None:
        self.now = 100.0
        self.arrivals = {rank: 100.0 + after for rank, after in arrivals.items()}
        self.waits: list[float] = []
        self.reports: list[str] = []

    def attempt(self, wait_s: float) -> frozenset[int]:
        self.waits.append(wait_s)
        last = max(self.arrivals.values())
        self.now = min(self.now + wait_s, max(last, self.now))
        return frozenset(rank for rank, arrival in self.arrivals.items() if arrival > self.now)

    def gather(self, patience: Patience | None = None) -> float:
        return gather(self.attempt, 8, patience or Patience(), clock=lambda: self.now, report=self.reports.append)


def test_nothing_is_reported_when_all_ranks_connect_in_time() -> None:
    world = World({1: 9.0})
    assert world.gather() == 9.0
    assert (world.waits, world.reports) == ([10.0], [])


def test_tries_double_and_each_reports_the_missing_ranks() -> None:
    world = World({1: 5.0, 2: 25.0, 3: 65.0, 5: 25.0})
    assert world.gather() == 65.0
    assert world.waits == [10.0, 20.0, 40.0]
    assert world.reports == [
        "ranks 2-3, 5 of 8 not here yet (after 10 s, try 1 of 5)",
        "rank 3 of 8 not here yet (after 30 s, try 2 of 5)",
    ]


def test_the_last_try_is_the_end() -> None:
    world = World({1: 5.0, 6: 1e9})
    with pytest.raises(MissingRanksError, match="rank 6 of 8 did not connect within 310 s") as caught:
        world.gather()
    assert world.waits == [10.0, 20.0, 40.0, 80.0, 160.0]
    assert caught.value.missing == {6}


def test_patience_has_the_requested_tries() -> None:
    world = World({6: 1e9})
    with pytest.raises(MissingRanksError):
        world.gather(Patience(tries=2, first_s=3.0))
    assert world.waits == [3.0, 6.0]
    for nonsense in ({"tries": 0}, {"first_s": 0.0}):
        with pytest.raises(ValueError, match="patience"):
            Patience(**nonsense)


def test_ranks_are_printed_folded() -> None:
    assert [folded({3}), folded({7, 4, 5, 1})] == ["rank 3", "ranks 1, 4-5, 7"]
