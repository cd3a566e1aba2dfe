"""`pylaunch verify`: look at every host from outside and say whether it is what provisioning promises."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from pylaunch.base.dataclass import dataclass
from pylaunch.checks.check import INDENT
from pylaunch.errors import ExitCode
from pylaunch.features.verify.specifications import SpecificationResult
from pylaunch.features.verify.verification import ALL_PASSED, INTERRUPTED, SOME_FAILED, VerifyReport, verify
from pylaunch.inventory import load_cluster
from pylaunch.model.cluster import Cluster
from pylaunch.model.hostset import fold
from pylaunch.model.text.argv import quoted
from pylaunch.model.text.quantity import counted, duration
from pylaunch.terminal import console, document, options

_EXIT_CODES = {
    ALL_PASSED: ExitCode.DONE,
    SOME_FAILED: ExitCode.JOB_FAILED,
    INTERRUPTED: ExitCode.INTERRUPTED,
}


@click.command()
@options.inventory
@options.limit
@click.option("--roles", metavar="ROLES", help="Only what these roles promise, comma-separated.")
@click.option("--deep", is_flag=True, help="Look at every file of the Python environment, not only at its records.")
@click.option("--junit", type=click.Path(path_type=Path, dir_okay=False), help="Write a JUnit XML report here.")
@options.as_json
def command(inventory: Path | None, limit: str | None, *, junit: Path | None, as_json: bool, **asked: Any) -> int:
    """Verify every host against what the roles promise.

    The specifications are pytest-testinfra tests that travel with pylaunch; nothing is changed on any host. Exit code
    1 says that one of them does not hold, 3 that a host cannot be reached.
    """
    cluster = load_cluster(inventory, limit=limit)
    with console.working(f"verifying {counted(len(cluster.hosts), 'host')}"):
        roles = options.words(asked["roles"])
        report = verify(cluster, limit=limit, roles=roles, deep=asked["deep"], junit=junit)
    exit_code = _EXIT_CODES[report.exit_code]
    if as_json:
        _document(report, cluster)
    else:
        # Hosts out of reach are reported once, below.
        for line in lines(report.of_reached_hosts, cluster.sources[0]):
            console.data(line)
        hosts = len(cluster.hosts) - len(report.unreachable)
        style = "green" if exit_code is ExitCode.DONE else "red"
        took = duration(report.seconds)
        console.say(summary(report.of_reached_hosts, hosts, took), style=style)
    report.raise_if_unreachable()
    return exit_code


def _document(report: VerifyReport, cluster: Cluster) -> None:
    reasons = {host: why.reason for host, why in report.unreachable.items()}
    per_host = {
        host: {"specifications": [_as_data(each) for each in report.results if each.host == host]}
        for host in cluster.names
        if host not in reasons
    }
    together = [_as_data(each) for each in report.results if each.host is None]
    document.show({"hosts": document.hosts(cluster.names, reasons, per_host), "specifications": together})


def _as_data(result: SpecificationResult) -> dict[str, object]:
    return {
        "specification": result.specification,
        "role": result.role,
        "outcome": result.outcome,
        "message": result.message or None,
    }


MOST_LINES = 12
_MARKS = {"failed": "FAIL", "error": "????", "skipped": "skip"}
_PREFIX = re.compile(r"^(?:Failed|AssertionError|Skipped|RuntimeError): (?:ssh \S+: )?")
_COMMAND = re.compile(
    r"""CommandResult\(backend=<[^>]*>, exit_status=\d+, command=b(['"])(?P<command>.*?)\1, """
    r"""_stdout=b(['"]).*?\3, _stderr=b(['"])(?P<stderr>.*?)\4\)"""
)
"""Answer of a command as testinfra prints it, with an address that differs from host to host."""

_HOSTS = "\0"
"""Stands for the host's own name in a message, so that equal messages of several hosts are one."""


@dataclass(frozen=True)
class _Kind:
    """Properties of results that are shown together."""

    outcome: str
    role: str | None
    promise: str
    """"" for skipped ones, which are only counted."""

    message: str
    evidence: tuple[str, ...]


def lines(results: Iterable[SpecificationResult], inventory: str) -> list[str]:
    """Return the lines of results that did not pass, skipped ones last."""
    kinds: dict[_Kind, list[SpecificationResult]] = {}
    for each in results:
        if each.outcome != "passed":
            kinds.setdefault(_kind(each), []).append(each)
    ordered = sorted(kinds.items(), key=lambda item: list(_MARKS).index(item[0].outcome))
    return [line for kind, found in ordered for line in _shown(kind, found, inventory)]


def summary(results: Sequence[SpecificationResult], hosts: int, seconds: str) -> str:
    """The last line: "54 promises on 3 hosts in 12 s: 49 kept, 2 not kept, 3 skipped"."""
    counts = {outcome: sum(each.outcome == outcome for each in results) for outcome in _MARKS}
    words = {"failed": "not kept", "error": "could not be judged", "skipped": "skipped"}
    kept = len(results) - sum(counts.values())
    parts = [f"{kept} kept", *(f"{count} {words[outcome]}" for outcome, count in counts.items() if count)]
    of = f"{len(results)} promise{'s' * (len(results) != 1)} on {hosts} host{'s' * (hosts != 1)}"
    return f"{of} in {seconds}: {'all kept' if 0 < kept == len(results) else ', '.join(parts)}"


def _kind(result: SpecificationResult) -> _Kind:
    promise = result.specification.partition(".")[2].removeprefix("test_").replace("_", " ")
    message = _COMMAND.sub(r"\g<command>: \g<stderr>", _PREFIX.sub("", result.message))
    if result.host is not None:
        message = re.sub(rf"(?<![\w-]){re.escape(result.host)}(?![\w-])", _HOSTS, message)
    is_skipped = result.outcome == "skipped"
    return _Kind(result.outcome, result.role, "" if is_skipped else promise, message, result.evidence)


def _shown(kind: _Kind, found: Sequence[SpecificationResult], inventory: str) -> list[str]:
    names = {each.host: None for each in found if each.host is not None}
    hosts = fold(names) if names else "all hosts"
    reason = kind.message.replace(_HOSTS, hosts)
    role = f"  [{kind.role}]" if kind.role else ""
    if kind.outcome == "skipped":
        promises = len({each.specification for each in found})
        return [f"skip  {hosts}: {promises} promise{'s' * (promises != 1)}: {reason}{role}"]
    rest = len(kind.evidence) - MOST_LINES
    return [
        f"{_MARKS[kind.outcome]}  {hosts}: {kind.promise}{role}",
        f"{INDENT}| {reason}",
        *(f"{INDENT}| {line}" for line in kind.evidence[:MOST_LINES]),
        *([f"{INDENT}| and {rest} more lines"] if rest > 0 else []),
        f"{INDENT}fix: {_fix(kind, list(names), inventory)}",
    ]


def _fix(kind: _Kind, hosts: Sequence[str], inventory: str) -> str:
    roles = ("--roles", kind.role) if kind.role else ()
    limit = ("--limit", fold(hosts)) if hosts else ()
    return quoted(("pylaunch", "provision", "-i", inventory, *roles, *limit))
