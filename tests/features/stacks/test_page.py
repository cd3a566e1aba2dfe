"""Ranks with equal stacks, and the frames that are shown."""

from pylaunch.features.stacks.page import other_threads, short_path, shown_stack, stack_groups
from pylaunch.protocol.examination import Frame, RankView, ThreadStack

TORCH = "/env/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
REDUCE = (Frame("all_reduce", TORCH, 3210), Frame("wrapper", "/env/lib/python3.11/site-packages/torch/l.py", 83))
TRAIN = Frame("train", "/srv/train.py", 31)
MAIN = Frame("<module>", "/srv/train.py", 40)


def view(rank: int, *frames: Frame, note: str = "", state: str = "S", others: tuple[ThreadStack, ...] = ()) -> RankView:
    threads = (ThreadStack("MainThread", is_main=True, frames=frames), *others) if frames else others
    return RankView(rank, f"n{rank // 2 + 1}", 1.0, 0.001, 100 + rank, state, 1.0, "helper", note, threads)


def test_ranks_with_equal_stacks_are_one_group_and_the_largest_is_first() -> None:
    views = [view(3, TRAIN, MAIN), view(0, *REDUCE, TRAIN, MAIN), view(2, *REDUCE, TRAIN, MAIN)]
    assert [group.ranks for group in stack_groups(views)] == [(0, 2), (3,)]
    views = [view(0, note="not Python"), view(1, note="not Python"), view(2, note="not Python", state="D")]
    assert [group.ranks for group in stack_groups(views)] == [(0, 1), (2,)], "the kernel says the same of two"


def test_foreign_frames_are_shown_where_the_code_of_the_user_calls_them_and_counted_otherwise() -> None:
    inner = (Frame("wait", TORCH, 1), Frame("_all_reduce", TORCH, 2))
    shown = shown_stack((*inner, *REDUCE, TRAIN, MAIN), "/srv")
    assert shown == [
        "wait (torch/distributed/distributed_c10d.py:1)", "… 2 more", "wrapper (torch/l.py:83)", "train (train.py:31)",
        "<module> (train.py:40)",
    ]  # fmt: skip


def test_a_stack_without_code_of_the_user_shows_its_innermost_frame() -> None:
    (shown,) = shown_stack(REDUCE[:1], "/srv")
    assert shown == "all_reduce (torch/distributed/distributed_c10d.py:3210)"
    assert shown_stack((), "/srv") == []


def test_paths_are_shortened_below_what_a_reader_knows() -> None:
    assert short_path("/usr/lib/python3.11/threading.py", "/srv") == "threading.py"
    assert short_path("/srv/models/net.py", "/srv/") == "models/net.py"
    assert short_path("/srv-2/net.py", "/srv") == "/srv-2/net.py"


def test_other_threads_with_equal_names_and_stacks_are_shown_once() -> None:
    loader = ThreadStack("loader", is_main=False, frames=(TRAIN,))
    (group,) = stack_groups([view(0, MAIN, others=(loader, loader)), view(1, MAIN, others=(loader,)), view(2, MAIN)])
    assert other_threads(group) == [("loader", (0, 1), (TRAIN,))]
