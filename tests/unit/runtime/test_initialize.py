import os
import sys
from types import ModuleType

import pytest

from pylaunch import runtime
from pylaunch.runtime import initialize


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No launcher's variable is set, whatever runs these tests."""
    for name in list(os.environ):
        if name.startswith(("RANK", "WORLD_SIZE", "TORCHELASTIC")):
            monkeypatch.delenv(name)


def test_without_a_launcher_everything_is_answered_at_once() -> None:
    assert (runtime.rank(), runtime.world_size(), runtime.local_rank(), runtime.is_main()) == (0, 1, 0, True)


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
