"""The matrix: all faults of all subjects, one after the other over one lab, each judged by the whole suite."""

import contextlib
import io
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from lab.lab import Lab
from pylaunch.cli.commands.prepare import check as verb
from pylaunch.cli.main import run
from pylaunch.model.hostset import fold
from tests.lab import faults_core, faults_devices, faults_network
from tests.lab.fault_case import Case

FAULTS: tuple[Case, ...] = (*faults_core.FAULTS, *faults_network.FAULTS, *faults_devices.FAULTS)


@dataclass(frozen=True)
class Seen:
    """The findings of the suite with one fault in place."""

    case: Case
    findings: tuple[dict[str, Any], ...]
    seconds: float
    """Of the check alone."""

    @property
    def reported(self) -> set[tuple[str, tuple[str, ...]]]:
        """(check, hosts) of everything that was found."""
        return {(each["check"], tuple(each["hosts"])) for each in self.findings}

    @property
    def expected(self) -> set[tuple[str, tuple[str, ...]]]:
        """The same, as the case wants it."""
        return {(check, self.case.hosts) for check in (self.case.check, *self.case.also)}

    @property
    def is_right(self) -> bool:
        """The fault was found, on its hosts, and nothing else was."""
        return self.reported == self.expected


def check(lab: Lab, arguments: Sequence[str] = ()) -> tuple[dict[str, Any], ...]:
    """The findings of `pylaunch check` for the job of the matrix: every check, always."""
    out = io.StringIO()
    words = [
        "check",
        "-i",
        str(lab.inventory),
        "--json",
        *faults_core.ARGUMENTS,
        *arguments,
        "--",
        *faults_core.COMMAND,
    ]
    read_once = mock.patch.object(verb, "hosts_to_ask", lambda inventory, limit: faults_core.cluster_of(inventory))
    with contextlib.redirect_stdout(out), read_once:
        run(words)
    return tuple(json.loads(out.getvalue())["findings"])


PAGE = Path(__file__).parents[2] / "docs/reference/faults.md"
OF_RUNS = "\n## Faults of a start and of a run\n"
"""Head of the part of the page that is written by hand."""

HEAD = """\
# Fault matrix: faults and the checks that find them

Each fault is injected on one node of a healthy three-node lab; then all checks run. The check in the table must find
the fault on that node, and no other check may find anything on any node. Before the first fault and after the last, no
check may find anything. A lab has no GPUs and cannot cause kernel errors, so stand-ins for `nvidia-smi` and `dmesg`
report these faults. `make faults` runs the matrix and writes this page; the test suite runs the same matrix. Seconds
are the duration of the whole check, from asking the hosts to judging the answers, on the machine described in
[measurements](measurements.md), with other work on it.

| fault | finding | host | severity | seconds |
|---|---|---|---|---|
"""


def row(seen: Seen) -> str:
    """A line of the page. Raises AssertionError for a fault that is not found as it should be."""
    assert seen.is_right, f"{seen.case.name}: expected {seen.expected}, found {seen.findings}"
    severity = next(each["severity"] for each in seen.findings if each["check"] == seen.case.check)
    found = ", ".join(f"`{check}`" for check in (seen.case.check, *seen.case.also))
    return f"| {seen.case.name} | {found} | {fold(seen.case.hosts)} | {severity} | {seen.seconds:.1f} |"


def main() -> None:
    """Run the matrix over a lab of its own, print it and write the page."""
    with Lab.up(f"faults{os.getpid()}") as lab, faults_core.prepared(lab):
        faults_core.relogin(lab)
        assert check(lab) == (), "the healthy lab has findings"
        rows = []
        for case in FAULTS:
            rows.append(row(look(lab, case)))
            sys.stdout.write(f"{rows[-1]}\n")
            sys.stdout.flush()
        assert check(lab) == (), "a fault has stayed"
    PAGE.write_text(HEAD + "\n".join(rows) + "\n" + "".join(PAGE.read_text().partition(OF_RUNS)[1:]))


def look(lab: Lab, case: Case) -> Seen:
    """Make the fault, ask, and make it good again."""
    with case.inject(lab):
        begun = time.monotonic()
        findings = check(lab, case.check_arguments)
        return Seen(case, findings, time.monotonic() - begun)


if __name__ == "__main__":
    main()
