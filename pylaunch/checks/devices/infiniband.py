"""InfiniBand and RoCE: ports up and as fast as their peers."""

from collections.abc import Iterator, Mapping
from typing import Any

from pylaunch.agent.probe.readers.devices import infiniband as infiniband_readers
from pylaunch.checks.check import Check, asks
from pylaunch.checks.survey import Survey
from pylaunch.model.diagnosis.finding import Finding, Severity
from pylaunch.model.diagnosis.majority import Rule, odd_ones
from pylaunch.model.text.argv import quoted

_PORTS = "infiniband.ports"


def _ports(survey: Survey) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for host, found in survey.measured(infiniband_readers.adapters).items():
        for port in found or ():
            yield host, port


def _name(port: Mapping[str, Any]) -> str:
    return f"{port['adapter']} port {port['port']}"


def _present(survey: Survey) -> Iterator[Finding]:
    found = survey.measured(infiniband_readers.adapters)
    if survey.wanted.infiniband:
        for host, ports in found.items():
            if not any(port["state"] == "ACTIVE" for port in ports or ()):
                text = f"no active port on {len(ports)} ports" if ports else "no InfiniBand or RoCE adapter"
                yield Finding(
                    "infiniband.present", Severity.FAIL, (host,), text, "lspci | grep -i -e mellanox -e infiniband"
                )
        return
    rule = Rule("infiniband.present", Severity.WARN, "InfiniBand or RoCE ports")
    yield from odd_ones(rule, {host: str(len(ports or ())) for host, ports in found.items()})


def _state(survey: Survey) -> Iterator[Finding]:
    active = {_name(port) for _, port in _ports(survey) if port["state"] == "ACTIVE"}
    severity = Severity.FAIL if survey.wanted.infiniband else Severity.WARN
    for host, port in _ports(survey):
        if port["state"] == "INIT":
            text = f"{_name(port)} waits for a subnet manager (state INIT)"
            yield Finding(_PORTS, severity, (host,), text, "start opensm on one host, or the switch's subnet manager")
        elif port["state"] != "ACTIVE" and _name(port) in active:
            text = f"{_name(port)} is {port['state']} ({port['physical_state']}), and active on other hosts"
            yield Finding(
                _PORTS, severity, (host,), text, f"ibstat {quoted((port['adapter'],))}; look at cable and switch port"
            )


def _rate(survey: Survey) -> Iterator[Finding]:
    rates: dict[str, dict[str, float]] = {}
    for host, port in _ports(survey):
        if port["state"] == "ACTIVE" and port["rate_gbps"] is not None:
            rates.setdefault(_name(port), {})[host] = port["rate_gbps"]
    for name, by_host in rates.items():
        best = max(by_host.values())
        for host, rate in by_host.items():
            if rate < best:
                text = f"{name} runs at {rate:g} Gb/s, and at {best:g} on other hosts: all ranks wait for it"
                fix = f"iblinkinfo; look at cable and switch port of {name.split()[0]}"
                yield Finding(_PORTS, Severity.WARN, (host,), text, fix)


CHECKS = (
    Check(
        "infiniband.present",
        "InfiniBand or RoCE adapters",
        "A host without the fast network makes all hosts use the slow one, or cannot be reached at all.",
        "what the run needs, else the majority",
        Severity.FAIL,
        asks(infiniband_readers.adapters),
        _present,
    ),
    Check(
        _PORTS,
        "state and rate of the ports",
        "NCCL waits until its timeout for a peer behind a port that is down; every collective is as fast as the slowest"
        " port.",
        "the same port of other hosts",
        Severity.FAIL,
        asks(infiniband_readers.adapters),
        lambda survey: (*_state(survey), *_rate(survey)),
    ),
)
