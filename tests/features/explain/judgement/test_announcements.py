"""Start lines of ranks that contradict each other, and the collectives in which a log ends."""

import pytest

from tests.features.explain.judgement.verdicts import first_cause, verdict_on

LATE = (
    "host-0: Traceback (most recent call last):\n"
    'host-0:   File "/opt/lib/ring.py", line 28, in join\n'
    "host-0: ring.RendezvousTimeout: 2/3 ranks joined after 5s\n"
)


def started(*ranks: tuple[int, int, str]) -> str:
    return "".join(
        f"host-{at}: INFO start rank={rank} world={world} master={address}\n"
        for at, (rank, world, address) in enumerate(ranks)
    )


HERE = "10.0.0.1:29500"


@pytest.mark.parametrize(
    ("log", "cause", "ranks"),
    [
        (started((0, 4, HERE), (1, 2, HERE), (2, 3, HERE)), "launcher-config", ()),
        (started((0, 3, HERE), (1, 3, HERE), (2, 4, HERE)), "launcher-config", (2,)),
        (started((0, 3, HERE), (1, 3, HERE), (2, 3, "10.0.0.1:29511")), "launcher-config", (2,)),
        (started((0, 3, HERE), (1, 3, HERE), (1, 3, HERE)), "duplicate-launch", ()),
        (started((0, 3, HERE), (2, 3, HERE)), "rank-missing", (1,)),
        (started((1, 3, HERE), (2, 3, HERE), (3, 3, HERE)), "launcher-config", (3,)),
    ],
    ids=["no majority", "one world size", "one port", "a rank twice", "a rank missing", "a rank outside"],
)
def test_ranks_that_started_with_contradicting_values_are_the_cause_of_a_failed_start(
    log: str, cause: str, ranks: tuple[int, ...]
) -> None:
    first = first_cause(log + LATE)
    assert (first.cause.id, first.ranks) == (cause, ranks)


@pytest.mark.parametrize(
    "log",
    [
        started((0, 3, HERE), (2, 3, HERE)),
        started((0, 3, HERE), (1, 3, HERE)) + "step 1 loss 2.0\nstep 2 loss 1.9\ntraining finished\n",
        started((0, 2, "0.0.0.0:29500"), (1, 2, HERE)) + "step 1 loss 2.0\n",
    ],
    ids=["a log that continues", "a run that ended well", "rank 0 listens on all addresses"],
)
def test_start_lines_alone_are_no_failure(log: str) -> None:
    verdict = verdict_on(log)
    assert (verdict.failed, verdict.causes) == (False, ())


def test_a_missing_start_line_is_no_cause_beside_an_error() -> None:
    error = LATE.replace("ring.RendezvousTimeout: 2/3 ranks joined after 5s", "KeyError: 'text'")
    found = verdict_on(started((0, 3, HERE), (2, 3, HERE)) + error).causes
    assert [each.cause.id for each in found] == ["unexplained"]
