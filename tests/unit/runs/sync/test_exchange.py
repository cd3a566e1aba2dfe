"""Content that nodes pass on to each other, and where that is not worth it."""

import asyncio
import resource
from pathlib import Path

import pytest

from pylaunch.broadcast import spread
from pylaunch.model.cluster import Cluster, Host
from pylaunch.runs.sync import exchange
from pylaunch.runs.sync.exchange import LEAST_SAVED, SOURCES, CodeExchange, shared_content
from pylaunch.runs.sync.tree import Tree, read_tree

HALF = LEAST_SAVED // 2
EVERYTHING = frozenset({0, 1})
NOTHING: frozenset[int] = frozenset()


@pytest.mark.parametrize(
    ("sizes", "missing"),
    [
        ((HALF, HALF - 1), {"n1": EVERYTHING, "n2": EVERYTHING}),  # One node would still get all from the controller.
        ((LEAST_SAVED, LEAST_SAVED), {"n1": EVERYTHING}),  # No other node to pass it on.
        ((LEAST_SAVED, LEAST_SAVED), {"n1": NOTHING, "n2": NOTHING}),
        ((LEAST_SAVED, 1), {"n1": NOTHING, "n2": frozenset({1})}),
    ],
)
def test_content_comes_from_the_controller_where_that_costs_less(
    sizes: tuple[int, ...], missing: dict[str, frozenset[int]]
) -> None:
    assert shared_content(sizes, missing) == ((), ())


def test_content_that_several_nodes_lack_is_sent_once_and_that_of_one_node_comes_from_another() -> None:
    assert shared_content((HALF, HALF), {"n1": EVERYTHING, "n2": EVERYTHING}) == ((0, 1), ("n1", "n2"))
    assert shared_content((LEAST_SAVED, 5), {"n1": frozenset({0}), "n2": NOTHING}) == ((0,), ("n1", "n2"))
    each_other = {"n1": frozenset({0}), "n2": frozenset({1})}
    assert shared_content((HALF, HALF), each_other) == ((0, 1), ("n1", "n2"))


def test_a_few_nodes_that_lack_nothing_are_enough_to_pass_it_on() -> None:
    missing = {f"n{each}": NOTHING for each in range(100)} | {"new": EVERYTHING}
    assert shared_content((HALF, HALF), missing)[1] == ("new", *(f"n{each}" for each in range(SOURCES)))


CLUSTER = Cluster(tuple(Host(name, "127.0.0.1") for name in ("n1", "n2", "n3")))


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    with (tmp_path / "weights").open("wb") as file:
        file.truncate(LEAST_SAVED)
    return read_tree(tmp_path)


async def begun(tree: Tree, notes: list[str]) -> tuple[CodeExchange, asyncio.Task[list[int]], asyncio.Task[list[int]]]:
    """Two of three nodes request the only file."""
    exchanged = CodeExchange(tree, CLUSTER, notes.append)
    return exchanged, *(asyncio.create_task(exchanged.remaining(name, [0])) for name in ("n1", "n2"))  # type: ignore[return-value]


def test_a_node_that_asks_late_does_not_wait_for_the_exchange_of_the_others(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def endless(*_: object, **__: object) -> None:
        is_passing.set()
        await asyncio.Event().wait()

    async def late() -> list[int]:
        exchanged, *others = await begun(tree, [])
        await is_passing.wait()
        try:
            async with asyncio.timeout(60):
                return await exchanged.remaining("n3", [0])
        finally:
            await exchanged.end()
            await asyncio.wait(others)

    is_passing = asyncio.Event()
    monkeypatch.setattr(exchange, "ALL_ASKED_S", 0.01)
    monkeypatch.setattr(spread, "spread", endless)
    assert asyncio.run(late()) == [0]


def test_where_this_process_may_not_open_enough_files_it_sends_the_code_itself(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def asked() -> list[list[int]]:
        exchanged, *others = await begun(tree, notes)
        exchanged.without("n3")
        return await asyncio.gather(*others)

    notes: list[str] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (100, 100))
    assert asyncio.run(asked()) == [[0], [0]]
    (note,) = notes
    assert note.startswith("note: nodes pass on no code, so this machine sends it to each: 3 hosts need 112 open files")
