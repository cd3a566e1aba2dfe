"""Steps in lines of tqdm, Megatron-LM, torchvision, transformers and plain scripts, and lines without one."""

import time

import pytest

from pylaunch.terminal.views.log_progress import LoggedStep, logged_step


@pytest.mark.parametrize(
    ("line", "unit", "number", "total"),
    [
        (" 45%|████▌     | 45/100 [00:12<00:15,  3.60it/s, loss=0.12]", "step", 45, 100),
        ("Epoch 2:  12%|█▏        | 120/1000 [00:30<03:40,  4.0it/s]", "step", 120, 1000),
        ("step 12/100 loss 0.3", "step", 12, 100),
        ("[rank0] step: 12 of 100", "step", 12, 100),
        ("train_step=12, lr=3e-4", "step", 12, 0),
        ("{'global_step': 12, 'loss': 0.3}", "step", 12, 0),
        (" iteration      100/  500000 | consumed samples:        25600 |", "step", 100, 500000),
        ("Iter 7", "step", 7, 0),
        ("Epoch: [3][ 120/5005]\tTime 0.3 (0.4)", "step", 120, 5005),
        ("Epoch 3/10", "epoch", 3, 10),
        ("{'loss': 0.5312, 'grad_norm': 1.2, 'learning_rate': 5e-05, 'epoch': 0.25}", "epoch", 0.25, 0),
        ("step 3/10 ... step 4/10", "step", 4, 10),
    ],
)
def test_a_line_names_its_step(line: str, unit: str, number: float, total: float) -> None:
    assert logged_step(line) == LoggedStep(unit, number, total)


@pytest.mark.parametrize(
    "line",
    [
        "", "loading 3 shards", "RuntimeError: failed in 3 steps", "footstep 3 heard", "epoch 1700000000",
        "2026-11-24 12/24 reached", "step 12/10", "https://example.org/step-3", "restarted 3 times",
    ],
)  # fmt: skip
def test_other_lines_name_none(line: str) -> None:
    assert logged_step(line) is None


def test_a_hostile_line_costs_little() -> None:
    begun = time.process_time()
    for line in ("step " * 200_000, "1" * 1_000_000, "epoch" + " " * 1_000_000 + "x", "[ 1/" * 200_000):
        logged_step(line)
    assert time.process_time() - begun < 1.0
