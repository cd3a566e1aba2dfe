"""Services of this host: systemd units, the configuration of sshd, and reports of roles that only root can make."""

from __future__ import annotations

import json
import os
from typing import Any

from pylaunch.agent.probe.commands import output_of, run_as_root
from pylaunch.agent.probe.registry import reader, reader_of_each
from pylaunch.protocol.readings.roles import ReportQuestion, ServiceReading, SshdQuestion

DEADLINE_S = 25.0
SSHD = "/usr/sbin/sshd"
PROPERTIES = ("LoadState", "UnitFileState", "ActiveState", "ConditionResult")


@reader("services.units", DEADLINE_S)
def units(names: list[str]) -> list[ServiceReading | None]:
    """Return the state of each systemd unit; None for units that do not exist."""
    output = output_of(["systemctl", "show", "--property=" + ",".join(PROPERTIES), "--", *names])
    shown = [dict(line.partition("=")[::2] for line in unit.splitlines()) for unit in output.strip().split("\n\n")]
    if len(shown) != len(names) or not all(set(PROPERTIES) <= set(unit) for unit in shown):
        raise ValueError(f"systemctl does not answer: {output.strip()[:200]}")
    return [None if unit["LoadState"] == "not-found" else _service(unit) for unit in shown]


def _service(unit: dict[str, str]) -> ServiceReading:
    return {
        "load": unit["LoadState"],
        "enabled": unit["UnitFileState"],
        "active": unit["ActiveState"],
        "condition": unit["ConditionResult"],
    }


@reader("services.sshd", DEADLINE_S)
def sshd(question: SshdQuestion) -> list[str | None]:
    """Return the effective value of each option (lower case) of sshd for a login from this host.

    Only root can ask sshd, which reads its host keys first. None without sshd, or for an option that it does not know.
    """
    try:
        os.stat(SSHD)
    except FileNotFoundError:
        return [None for _ in question["options"]]
    words = [SSHD, "-T", "-C", "user=root,host=localhost,addr=127.0.0.1,laddr=127.0.0.1,lport=22"]
    output = run_as_root(words, question["sudo_password"])
    effective = dict(line.split(" ", 1) for line in output.splitlines() if " " in line)
    if "maxstartups" not in effective:
        raise ValueError((output.strip() or "sshd -T printed nothing").splitlines()[0][:200])
    return [effective.get(option) for option in question["options"]]


@reader_of_each("services.report", DEADLINE_S)
def report(question: ReportQuestion) -> list[str]:
    """Return the differences that one of our programs on this host (`path`) reports; it runs as root."""
    os.stat(question["path"])
    output = run_as_root(["/usr/bin/python3", "-IB", question["path"], "show"], question["sudo_password"])
    # Before its first answer, sudo may print a lecture.
    found = next((line for line in output.splitlines() if line.startswith("{")), None)
    if found is None:
        raise ValueError(output.strip()[-200:] or "{} printed nothing".format(question["path"]))
    answer: dict[str, Any] = json.loads(found)
    return [str(each) for each in answer["differences"]]
