from pylaunch.runs.prepare.queue import words


def test_blocking_runs_are_listed_with_hosts_and_devices_folded() -> None:
    run = "run 7f3a of anna since 12:01"
    devices = (("device 0", run), ("device 1", run), ("device 3", run))
    assert words({"gpu01": (*devices, ("port 29500", run)), "gpu02": devices, "gpu03": devices, "gpu04": ()}) == [
        f"gpu01: devices 0-1,3, port 29500, {run}",
        f"gpu[02-03]: devices 0-1,3, {run}",
    ]
