from pylaunch.runs.prepare.slowness import slow_nodes


def times(*seconds: float) -> dict[str, dict[str, float]]:
    return {f"n{number + 1}": {"connect": each} for number, each in enumerate(seconds)}


def test_a_node_slower_than_its_peers_is_reported_with_the_usual_duration() -> None:
    (slow,) = slow_nodes(times(0.2, 0.3, 4.1, 0.25))
    assert slow == "n3 took 4.1 s to connect; the median is 0.3 s"


def test_short_delays_slow_peers_and_two_nodes_show_no_slowness() -> None:
    for seconds in ((0.01, 0.01, 0.4), (8.0, 9.0, 10.0, 14.0), (0.1, 9.0)):
        assert slow_nodes(times(*seconds)) == ()


def test_each_phase_is_judged_on_its_own() -> None:
    seconds = {host: {"connect": 5.0, "prepare": each} for host, each in (("n1", 0.1), ("n2", 0.1), ("n3", 3.0))}
    assert [slow.partition(";")[0] for slow in slow_nodes(seconds)] == ["n3 took 3.0 s to prepare"]
