"""Nodes that are silent, suspected or lost."""

from pylaunch.runs.connect.liveness import Liveness


def after(
    silence: Liveness, seconds: int, heard: dict[str, float] | None = None, deaf_to: tuple[str, ...] = ()
) -> Liveness:
    """`silence` after a look every second, for so many seconds."""
    for _ in range(seconds):
        silence = silence.with_look(silence.looked + 1.0, heard or {}, deaf_to)
    return silence


BEGIN = Liveness(10.0, 100.0, {"n1": 100.0, "n2": 100.0})


def test_a_node_is_suspected_before_it_is_lost() -> None:
    assert after(BEGIN, 3).suspected() == ()
    assert after(BEGIN, 4).suspected() == ("n1", "n2")
    assert after(BEGIN, 9).lost() == ()
    assert after(BEGIN, 10).lost() == ("n1", "n2")


def test_a_heartbeat_of_a_node_counts_for_that_node_alone() -> None:
    silence = after(after(BEGIN, 6), 6, {"n1": 106.0})
    assert silence.suspected() == ("n1", "n2")
    assert silence.lost() == ("n2",)
    assert silence.left_s("n1") == 4.0


def test_the_time_during_which_the_controller_was_stopped_does_not_count() -> None:
    silence = after(BEGIN, 3).with_look(100.0 + 3 + 3600, {}, ())
    assert silence.suspected() == ()
    assert silence.left_s("n1") == 7.0


def test_a_node_that_was_not_listened_to_was_not_silent() -> None:
    assert after(BEGIN, 20, deaf_to=("n1",)).lost() == ("n2",)


def test_a_finished_node_is_never_lost() -> None:
    assert after(BEGIN.without("n1"), 20).lost() == ("n2",)
