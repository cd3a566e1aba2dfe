"""Counters of this node that reveal errors, and its memory and pressure. A reader of sysfs may wait for a driver."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping

from pylaunch.agent.shared import cgroups
from pylaunch.agent.shared.text import meminfo, names_in, text_or_none

NETWORK = "/sys/class/net"
INFINIBAND = "/sys/class/infiniband"
PRESSURE = "/proc/pressure"
INTERFACE_COUNTERS = ("rx_errors", "tx_errors", "rx_dropped", "tx_dropped", "rx_missed_errors", "collisions")
PORT_COUNTERS = (
    "counters/link_downed", "counters/link_error_recovery", "counters/symbol_error", "counters/port_rcv_errors",
    "counters/port_xmit_discards", "counters/local_link_integrity_errors", "counters/excessive_buffer_overrun_errors",
    "hw_counters/local_ack_timeout_err", "hw_counters/packet_seq_err", "hw_counters/rnr_nak_retry_err",
    "hw_counters/out_of_sequence", "hw_counters/roce_adp_retrans_to",
)  # fmt: skip
MEMORY_EVENTS = ("high", "max", "oom", "oom_kill", "oom_group_kill")
MOST_DEVICES = 128


def read(memory_cgroup: str | None, until: float) -> tuple[dict[str, int], str]:
    """Return counters by name, and a reason if some were not read before `until` (monotonic).

    `memory_cgroup` is the cgroup of the ranks, whose memory events are counted; None for no cgroup.
    """
    found: dict[str, int] = {}
    for name, value in _all(memory_cgroup):
        found[name] = value
        if time.monotonic() >= until:
            return found, "not all counters could be read in time"
    return found, ""


def rises(before: Mapping[str, int], now: Mapping[str, int]) -> dict[str, int]:
    """Return the increase of each counter that increased; a counter that is new or was reset is left out."""
    return {name: value - before[name] for name, value in now.items() if value > before.get(name, value)}


def gauges() -> dict[str, float]:
    """Return available and total memory in bytes, and the pressure of the last 10 s in percent."""
    found: dict[str, float] = {}
    with contextlib.suppress(OSError):  # In a container of LXC, it is the file of a program that may have ended.
        memory = meminfo()
        found = {"memory total": memory["MemTotal"], "memory available": memory["MemAvailable"]}
    for resource in ("cpu", "io", "memory"):
        for line in (text_or_none(os.path.join(PRESSURE, resource)) or "").splitlines():
            kind, _, rest = line.partition(" avg10=")
            number = rest.split(" ", 1)[0]
            if kind in ("some", "full") and number.replace(".", "", 1).isdigit():
                found[f"{resource} {kind}"] = float(number)
    return found


def _all(memory_cgroup: str | None) -> Iterator[tuple[str, int]]:
    for name in names_in(NETWORK, MOST_DEVICES):
        place = os.path.join(NETWORK, name)
        if not os.path.exists(os.path.join(place, "device")):
            continue  # Bridges and virtual links change with every container.
        yield from _numbers(name, place, ("carrier_changes",))
        yield from _numbers(name, os.path.join(place, "statistics"), INTERFACE_COUNTERS)
    for adapter in names_in(INFINIBAND, MOST_DEVICES):
        ports = os.path.join(INFINIBAND, adapter, "ports")
        for port in names_in(ports, MOST_DEVICES):
            yield from _numbers(f"{adapter}/{port}", os.path.join(ports, port), PORT_COUNTERS)
    kills = cgroups.oom_kills()
    if kills is not None:
        yield "host oom_kill", kills
    for line in cgroups.text(memory_cgroup, "memory.events").splitlines() if memory_cgroup is not None else ():
        name, _, value = line.partition(" ")
        if name in MEMORY_EVENTS and value.isdigit():
            yield "memory " + name, int(value)


def _numbers(owner: str, directory: str, names: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    for name in names:
        value = text_or_none(os.path.join(directory, name))  # EINVAL: a port that does not count this.
        if value is not None and value.isdigit():
            yield f"{owner} {os.path.basename(name)}", int(value)
