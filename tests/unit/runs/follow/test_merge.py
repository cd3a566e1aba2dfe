from pylaunch.runs.follow.merge import MOST_WAITING, WINDOW_S, LineSource, Merge, MergedLine

RANKS = [LineSource(f"n{1 + rank // 2}", str(rank)) for rank in range(6)]


def shown(lines: list[MergedLine]) -> list[tuple[str, str]]:
    return [(",".join(source.who for source in line.sources), line.text) for line in lines]


def test_lines_of_several_ranks_come_in_the_order_in_which_they_were_written() -> None:
    merge = Merge()
    merge.add(RANKS[0], "out", "second\n", time=10.2, now=20.0)
    merge.add(RANKS[2], "out", "first\n", time=10.1, now=20.1)
    assert list(merge.due(20.0 + WINDOW_S / 2)) == []
    assert shown(list(merge.due(20.1 + WINDOW_S))) == [("2", "first"), ("0", "second")]
    assert merge.waiting == 0


def test_the_same_line_of_many_ranks_is_shown_once() -> None:
    merge = Merge()
    for rank in (5, 1, 0, 3):
        merge.add(RANKS[rank], "out", "loading\n", time=10.0 + rank / 100, now=20.0)
    merge.add(RANKS[2], "err", "loading\n", time=10.0, now=20.0)
    merge.add(RANKS[4], "out", "loading slowly\n", time=10.5, now=20.0)
    assert shown(list(merge.rest())) == [("0,1,3,5", "loading"), ("2", "loading"), ("4", "loading slowly")]


def test_the_order_of_one_rank_is_kept() -> None:
    merge = Merge()
    merge.add(RANKS[0], "out", "a\nb\na\n", time=10.0, now=20.0)
    merge.add(RANKS[1], "out", "b\na\nc\n", time=10.0, now=20.0)
    lines = list(merge.rest())
    for rank, order in ((0, ["a", "b", "a"]), (1, ["b", "a", "c"])):
        assert [line.text for line in lines if RANKS[rank] in line.sources] == order
    assert ("0,1", "b") in shown(lines)


def test_a_flood_does_not_wait() -> None:
    merge = Merge()
    line = "x" * 1023 + "\n"
    for _ in range(MOST_WAITING // 1024 + 10):
        merge.add(RANKS[0], "out", line, time=10.0, now=20.0)
    assert len(list(merge.due(20.0))) == 10
    assert merge.waiting <= MOST_WAITING
    assert len(list(merge.rest())) == MOST_WAITING // 1024


def test_every_line_is_shown_once_for_each_of_its_writers() -> None:
    merge = Merge()
    for turn in range(50):
        for rank in range(6):
            text = f"step {turn}\nloss {turn * (rank % 3)}\n"
            merge.add(RANKS[rank], "out", text, time=10.0 + turn, now=20.0)
    lines = list(merge.rest())
    assert sum(len(line.sources) for line in lines) == 50 * 6 * 2
    assert len(lines) < 50 * 6
    assert merge.waiting == 0


def test_lines_are_held_for_a_limited_time() -> None:
    merge = Merge(held_until=30.0)
    merge.add(RANKS[0], "out", "line\n", time=13.0, now=20.0)
    assert [line.text for line in merge.due(30.0)] == ["line"]
