"""Lines of progress while files travel."""

import pytest

from pylaunch.features.push import command
from pylaunch.features.push.progress import PushProgress


def test_progress_is_printed_after_two_seconds_and_then_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    with command._following(("n1", "n2", "n3")) as on_progress:
        for seconds in (0.5, 1.5, 2.5, 4.0, 9.0, 13.0):
            on_progress(PushProgress(100 << 20, int(seconds * (5 << 20)), ("n1",), 3, seconds))
    assert capsys.readouterr().err.splitlines() == [
        "push: 12% of 100 MiB, 5.0 MiB/s to each host, 1 of 3 hosts have it, about 18 s left",
        "push: 65% of 100 MiB, 5.0 MiB/s to each host, 1 of 3 hosts have it, about 7 s left",
    ]
