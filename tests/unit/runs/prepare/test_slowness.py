from pylaunch.runs.prepare.slowness import slow_nodes


def times(*seconds: float) -> dict[str, dict[str, float]]:
    return {f"n{number + 1}": {"connect": each} for number, each in enumerate(seconds)}


def test_a_node_slower_than_its_peers_is_reported_with_the_usual_duration() -> None:
    (slow,) = slow_nodes(times(0.2, 0.3, 4.1, 0.25))
    assert slow == "n3 took 4.1 s to connect; the median is 0.3 s"


def test_a_short_delay_is_no_slowness() -> None:
    assert slow_nodes(times(0.01, 0.01, 0.4)) == ()


def test_when_all_nodes_are_slow_none_is_reported() -> None:
    assert slow_nodes(times(8.0, 9.0, 10.0, 14.0)) == ()


def test_two_nodes_show_no_usual_duration() -> None:
    assert slow_nodes(times(0.1, 9.0)) == ()


def test_each_phase_is_judged_on_its_own() -> None:
    seconds = {host: {"connect": 5.0, "prepare": each} for host, each in (("n1", 0.1), ("n2", 0.1), ("n3", 3.0))}
    assert [slow.partition(";")[0] for slow in slow_nodes(seconds)] == ["n3 took 3.0 s to prepare"]
