"""Counters as differences, from trees like those of sysfs."""

import errno
import time
from pathlib import Path

import pytest

from pylaunch.agent.evidence import counters


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("NETWORK", "INFINIBAND"):
        monkeypatch.setattr(counters, name, str(tmp_path / name))
    (tmp_path / "NETWORK/eth0/device").mkdir(parents=True)
    write(tmp_path / "NETWORK/eth0/carrier_changes", "2\n")
    write(tmp_path / "NETWORK/eth0/statistics/rx_errors", "0\n")
    write(tmp_path / "NETWORK/docker0/carrier_changes", "9\n")
    write(tmp_path / "INFINIBAND/mlx5_0/ports/1/counters/link_downed", "1\n")
    write(tmp_path / "cgroup/memory.events", "low 0\nhigh 0\nmax 4\noom 0\noom_kill 0\n")
    return tmp_path


def read(host: Path) -> dict[str, int]:
    found, late = counters.read(str(host / "cgroup"), time.monotonic() + 60)
    assert late == ""
    return {name: value for name, value in found.items() if name != "host oom_kill"}


def test_devices_ports_and_memory_events_are_counted_and_virtual_links_are_not(host: Path) -> None:
    assert read(host) == {
        "eth0 carrier_changes": 2, "eth0 rx_errors": 0, "mlx5_0/1 link_downed": 1,
        "memory high": 0, "memory max": 4, "memory oom": 0, "memory oom_kill": 0,
    }  # fmt: skip


def test_only_increases_are_reported(host: Path) -> None:
    before = read(host)
    write(host / "NETWORK/eth0/carrier_changes", "4\n")
    write(host / "INFINIBAND/mlx5_0/ports/1/counters/link_downed", "0\n")
    (host / "NETWORK/eth1/device").mkdir(parents=True)
    write(host / "NETWORK/eth1/carrier_changes", "7\n")
    assert counters.rises(before, read(host)) == {"eth0 carrier_changes": 2}


def test_a_deadline_ends_the_reading(host: Path) -> None:
    _, late = counters.read(None, time.monotonic() - 1)
    assert late == "not all counters could be read in time"


def test_memory_of_this_host_is_known() -> None:
    found = counters.gauges()
    assert found["memory total"] >= found["memory available"] > 0


def test_a_host_whose_memory_cannot_be_read_has_its_other_gauges(monkeypatch: pytest.MonkeyPatch) -> None:
    def ended_lxcfs() -> dict[str, int]:
        raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")

    monkeypatch.setattr(counters, "meminfo", ended_lxcfs)
    assert not [name for name in counters.gauges() if name in ("memory total", "memory available")]
