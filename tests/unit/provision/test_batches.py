from __future__ import annotations

import pytest

from pylaunch.errors import UsageError
from pylaunch.provision.batches import batches

HOSTS = tuple(f"n{number}" for number in range(1, 21))


def sizes(serial: str, count: int = 20) -> list[int]:
    cut = batches(HOSTS[:count], serial)
    assert [host for batch in cut for host in batch] == list(HOSTS[:count])
    return [len(batch) for batch in cut]


def test_the_last_size_repeats_and_a_percentage_is_at_least_one_host() -> None:
    assert sizes("1,10%,100%") == [1, 2, 17], "a canary, a few, all the rest"
    assert sizes("1, 8") == [1, 8, 8, 3]
    assert sizes("10%", 3) == [1, 1, 1]


@pytest.mark.parametrize("serial", ["", "0", "0%", "-1", "many", "1,,2", "10%%"])
def test_an_invalid_size_is_refused_with_an_example(serial: str) -> None:
    with pytest.raises(UsageError, match="expected a number of hosts or a percentage") as refused:
        batches(HOSTS, serial)
    assert refused.value.hint == "for example: --serial 1,10%,100%"
