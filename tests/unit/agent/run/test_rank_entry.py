"""A rank that launcher and supervisor stop at the same time gets each signal once."""

from signal import SIGINT, SIGKILL, SIGTERM

from pylaunch.agent.run.rank_entry import SAME_STOP_S, StopSignals


def test_the_signal_of_the_supervisor_is_dropped_soon_after_the_same_one_of_the_launcher() -> None:
    stop = StopSignals()
    assert stop.of_launcher([SIGTERM], 100.0) == [SIGTERM]
    assert stop.of_supervisor([SIGTERM], 100.0) == []
    assert stop.of_supervisor([SIGTERM, SIGKILL], 100.0 + SAME_STOP_S - 0.01) == [SIGKILL]


def test_the_signal_of_a_launcher_is_dropped_after_the_same_one_of_the_supervisor() -> None:
    stop = StopSignals()
    assert stop.of_supervisor([SIGTERM], 0.5) == [SIGTERM]
    assert stop.of_launcher([SIGTERM, SIGINT], 1000.0) == [SIGINT]
    assert stop.of_supervisor([SIGTERM], 1000.0) == [SIGTERM], "a dropped signal starts no time"
