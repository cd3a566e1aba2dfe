import os
import random
import sys
from types import ModuleType

import pytest

from pylaunch import runtime
from pylaunch.runtime import initialize


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No launcher's variable is set, whatever runs these tests."""
    for name in list(os.environ):
        if name.startswith(("SLURM_", "OMPI_", "RANK", "WORLD_SIZE", "TORCHELASTIC")):
            monkeypatch.delenv(name)


def test_without_a_launcher_everything_is_answered_at_once() -> None:
    assert (runtime.rank(), runtime.world_size(), runtime.local_rank(), runtime.is_main()) == (0, 1, 0, True)
    runtime.barrier()
    with runtime.main_process_first():
        pass


def test_ranks_have_seeds_of_their_own_that_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: dict[str, float] = {}
    for rank in ("0", "1", "0"):
        for name, value in {"RANK": rank, "WORLD_SIZE": "2", "LOCAL_RANK": rank, "MASTER_ADDR": "n1"}.items():
            monkeypatch.setenv(name, value)
        assert runtime.seed(7) == 7 + int(rank)
        number = random.random()
        assert drawn.setdefault(rank, number) == number
    assert drawn["0"] != drawn["1"]


@pytest.mark.parametrize(("imported", "message"), [((), "neither torch nor jax"), (("torch", "jax"), "torch and jax")])
def test_init_does_not_guess_between_frameworks(
    monkeypatch: pytest.MonkeyPatch, imported: tuple[str, ...], message: str
) -> None:
    for name in initialize.FRAMEWORKS:
        monkeypatch.delitem(sys.modules, name, raising=False)
    for name in imported:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    with pytest.raises(ValueError, match=message):
        runtime.init()
