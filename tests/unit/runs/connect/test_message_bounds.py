"""Views and facts that a node reports are bounded."""

from typing import Any

from pylaunch import protocol
from pylaunch.protocol import examination as bounds
from pylaunch.runs.connect.message_bounds import MOST_FACTS, shortened

PLACE = protocol.Frame("f", "p.py", 1)


def bounded(message: Any) -> Any:
    found = shortened(message)
    assert type(found) is type(message)
    return found


def test_what_a_node_invents_is_cut_or_omitted() -> None:
    thread = protocol.ThreadStack("t" * 1000, is_main=True, frames=(protocol.Frame("f" * 1000, "p.py", 1),) * 1000)
    call = protocol.Collective("0", 1, "add", ((1,) * 99,) * 99, (), ("Float",) * 99, is_retired=True)
    view = bounded(
        protocol.RankView(
            3, "", 1.0, 0.0, 7, "Sleeping", 2.5, "a friend", "", (thread,) * 1000,
            (protocol.ProcessGroup("0", "", (1,) * 5000),), (*(call,) * 400, protocol.Collective(
                "last", 9, "add", (), (), (), is_retired=False)),
        )
    )  # fmt: skip
    assert (view.source, view.state) == ("", "S")
    assert len(view.threads) == bounds.MOST_THREADS
    assert len(view.threads[0].name) == len(view.threads[0].frames[0].function) == bounds.LONGEST_TEXT
    assert len(view.threads[0].frames) == bounds.MOST_STACK_FRAMES
    assert len(view.groups[0].ranks) == bounds.MOST_GROUP_RANKS
    assert (len(view.collectives), view.collectives[-1].group) == (bounds.MOST_COLLECTIVES, "last")
    first = view.collectives[0]
    assert {len(first.input_sizes), len(first.input_sizes[0]), len(first.dtypes)} == {bounds.MOST_TENSORS}


def test_children_have_their_stacks_and_are_bounded() -> None:
    thread = protocol.ThreadStack("MainThread", is_main=True, frames=(PLACE,))
    child = protocol.ChildProcess(12, "c" * 1000, "Sleeping", 0.5, ("futex",) * 100, (thread,) * 100, "n" * 1000)
    view = bounded(protocol.RankView(3, "", 1.0, 0.0, 7, "S", 2.5, "", children=(child,) * 100, child_count=200))
    assert (len(view.children), view.child_count) == (bounds.MOST_CHILDREN, 200)
    first = view.children[0]
    assert (len(first.name), first.state, len(first.note)) == (bounds.LONGEST_TEXT, "S", bounds.LONGEST_TEXT)
    assert (len(first.waits), len(first.threads)) == (bounds.MOST_WAITS, bounds.MOST_CHILD_THREADS)
    assert first.threads[0].frames == (PLACE,)


def test_a_node_can_fill_neither_the_record_nor_the_terminal() -> None:
    long = "x" * 100_000
    facts = protocol.HostEvidence(
        "", 1.0, 0.1,
        (protocol.KernelEvent(long, 1.0, long, long),) * 1000,
        (protocol.StuckConnection(0, long, long, 2, 3, 0, 4),) * 1000,
        1, (long,) * 1000, 0.0, (long,) * 1000,
    )  # fmt: skip
    found = bounded(facts)
    assert len(found.kernel) == len(found.stuck) == len(found.addresses) == MOST_FACTS
    assert len(found.missing) == MOST_FACTS
    texts = [found.kernel[0].text, found.stuck[0].peer, found.addresses[0], found.missing[0]]
    assert max(map(len, texts)) == bounds.LONGEST_TEXT
