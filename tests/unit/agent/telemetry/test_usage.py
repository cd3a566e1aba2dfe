from pylaunch.agent.telemetry import cpu_ticks, devices

STAT = "cpu  400 10 90 1000 50 5 5 40 7 0\ncpu0 1 2 3 4 5 6 7 8 9 10\nintr 1 2\n"


def test_io_wait_is_not_busy_and_guests_are_not_counted_twice() -> None:
    assert cpu_ticks(STAT) == (550, 1600)


def test_devices_are_summed_and_lines_without_numbers_are_ignored() -> None:
    assert devices("90, 70000, 81559\n50, 10000, 81559\n") == (0.7, 80_000 << 20, 163_118 << 20)
    assert devices("[N/A], 70000, 81559\n") == (None, 0, 0)
    assert devices("Unable to determine the device handle: GPU is lost\n") == (None, 0, 0)
    assert devices("") == (None, 0, 0)
