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
