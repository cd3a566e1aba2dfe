"""Lines of progress while files travel."""

from pylaunch.broadcast.progress import BroadcastProgress, lines_of_progress


def test_progress_is_printed_after_two_seconds_and_then_now_and_then() -> None:
    lines: list[str] = []
    write = lines_of_progress(lines.append)
    for seconds in (0.5, 1.5, 2.5, 4.0, 9.0, 13.0):
        write(BroadcastProgress(100 << 20, int(seconds * (5 << 20)), ("n1",), 3, seconds))
    assert lines == [
        "12% of 100 MiB, 5.0 MiB/s to each host, 1 of 3 hosts have it, about 18 s left",
        "65% of 100 MiB, 5.0 MiB/s to each host, 1 of 3 hosts have it, about 7 s left",
    ]


def test_nothing_is_left_at_the_end_and_nothing_known_at_the_beginning() -> None:
    assert BroadcastProgress(5, 5, ("n1",), 1, 2.0).line.endswith("1 of 1 hosts have it")
    assert BroadcastProgress(5, 0, (), 1, 2.0).line.endswith(
        "0 of 1 hosts have it; hosts look for what they have of it"
    )
    verifying = "0 of 1 hosts have it; hosts read back what they wrote and compare its hashes"
    assert BroadcastProgress(5, 5, (), 1, 2.0).line.endswith(verifying)
    assert BroadcastProgress(0, 0, (), 1, 0.0).line.startswith("100% of 0 bytes")
