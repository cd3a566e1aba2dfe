"""Late ranks whose worker processes wait for a lock."""

from dataclasses import replace

import pytest

from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.diagnosis.hang import HangKind
from pylaunch.protocol.examination import ChildProcess, Frame
from pylaunch.verdict.hangs.judge import judge_hang
from pylaunch.verdict.hangs.ranks import HangEvidence
from tests.unit.verdict.hangs.views import SITE, evidence, one_late

IN_LOADER = (Frame("_next_data", f"{SITE}/torch/utils/data/dataloader.py", 1400), Frame("main", "/job/train.py", 9))


def with_workers(*seen: tuple[str, ...], frames: tuple[Frame, ...] = IN_LOADER) -> HangEvidence:
    """Return two samples of ranks that wait for one whose two workers are in these system calls."""
    found = evidence(one_late(4, 1, frames))
    samples = []
    for sample, waits in zip(found.samples, seen, strict=True):
        workers = tuple(
            ChildProcess(pid, "pt_data_worker", "S", 2.0, each)
            for pid, each in ((4121, waits), (4122, ("futex", "poll")))
        )
        samples.append(tuple(replace(each, children=workers) if each.rank == 1 else each for each in sample))
    return replace(found, samples=tuple(samples))


def test_a_rank_whose_data_loader_worker_waits_for_a_lock_hangs() -> None:
    best = judge_hang(with_workers(("futex",), ("futex",)))[0]
    assert (best.kind, best.ranks, best.confidence) == (HangKind.LATE, (1,), Confidence.MEDIUM)
    assert best.text.endswith(
        "rank 1 on n01 is in main (train.py:9), in _next_data (dataloader.py:1400), "
        "and its DataLoader worker pid 4121 waits for a lock"
    )


@pytest.mark.parametrize(
    "seen",
    [(("futex",), ("poll",)), (("futex", "recvfrom"), ("futex", "recvfrom"))],
    ids=["at times", "one thread reads"],
)
def test_a_rank_whose_data_loader_worker_waits_for_something_else_is_slow(seen: tuple[tuple[str, ...], ...]) -> None:
    best = judge_hang(with_workers(*seen))[0]
    assert (best.kind, best.ranks) == (HangKind.BUSY, (1,))
    assert "lock" not in best.text


def test_a_stopped_child_is_shown_as_stopped_and_not_its_rank() -> None:
    found = with_workers(("do_signal_stop",), ("do_signal_stop",))
    stopped = [
        tuple(replace(each, children=tuple(replace(one, state="T") for one in each.children[:1])) for each in sample)
        for sample in found.samples
    ]
    best = judge_hang(replace(found, samples=tuple(stopped)))[0]
    assert (best.kind, best.ranks, best.confidence) == (HangKind.LATE, (1,), Confidence.MEDIUM)
    assert best.text.endswith(
        "(dataloader.py:1400), and its child process pt_data_worker, pid 4121, is stopped (state T: SIGSTOP)"
    )
    assert best.hint == "on n01: kill -CONT 4121"
