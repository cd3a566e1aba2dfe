"""Verify hosts: run the specifications, which look at every host from outside. Changes nothing."""

import importlib.util
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from pylaunch.agent.probe.readers.hosts import reach
from pylaunch.base.dataclass import dataclass
from pylaunch.errors import PylaunchError, UsageError
from pylaunch.features.verify.specifications import SpecificationResult, results
from pylaunch.model.cluster import Cluster
from pylaunch.model.text.argv import quoted
from pylaunch.probe.ask import Unreachable, ask, parted, unreachable_error
from pylaunch.probe.program import probe
from pylaunch.store import content
from pylaunch.transport import process

_PYTEST = (sys.executable, "-P", "-m", "pytest", "--quiet")
ALL_PASSED, SOME_FAILED, INTERRUPTED = 0, 1, 2
"""Exit codes of pytest with a report."""


@dataclass(frozen=True)
class VerifyReport:
    """Results of all specifications."""

    results: tuple[SpecificationResult, ...]
    unreachable: Mapping[str, Unreachable]
    cluster: Cluster
    exit_code: int
    """Of pytest: ALL_PASSED, SOME_FAILED or INTERRUPTED."""

    seconds: float

    @property
    def of_reached_hosts(self) -> tuple[SpecificationResult, ...]:
        """Results without those of hosts that are out of reach."""
        return tuple(each for each in self.results if each.host not in self.unreachable)

    def raise_if_unreachable(self) -> None:
        """Raises ClusterNotReadyError for hosts out of reach."""
        if self.unreachable:
            raise unreachable_error(self.unreachable, self.cluster)


def verify(
    cluster: Cluster,
    *,
    limit: str | None = None,
    roles: tuple[str, ...] = (),
    deep: bool = False,
    junit: Path | None = None,
) -> VerifyReport:
    """Run the specifications of `roles`, () is all, against every host. Failures are in the report.

    `limit` has reduced `cluster`: pytest reads the inventory again. `deep` reads every file of the Python environments;
    `junit` keeps the JUnit report. Raises UsageError without an inventory or without pytest, and for a role that does
    not exist, PylaunchError when pytest cannot run.
    """
    _require_tools()
    if not cluster.sources:
        raise UsageError("verify needs an inventory that names the hosts", hint="pylaunch verify -i cluster.ini")
    known = sorted(each.name for each in content.roles_directory().iterdir())
    if unknown := sorted({*roles} - {*known}):
        raise UsageError(f"no such role: {', '.join(unknown)}", hint=f"roles: {', '.join(known)}")
    if junit is not None and not junit.absolute().parent.is_dir():
        # pytest would make the directory: one that is misspelt is an error, as for every other file.
        text = f"--junit {junit}: cannot be written: no such directory: {junit.parent}"
        raise UsageError(text, hint=f"mkdir -p {quoted((str(junit.parent),))}")
    flags = ["--limit", limit] if limit is not None else []
    flags += ["--roles", ",".join(roles)] if roles else []
    flags += ["--deep"] if deep else []
    begun = time.monotonic()
    answers = ask(cluster, dict.fromkeys(cluster.names, probe(reach.identity.ask(None))))
    _, unreachable = parted(answers, cluster)
    with tempfile.TemporaryDirectory(prefix="pylaunch-verify-") as directory:
        report = junit.absolute() if junit is not None else Path(directory, "report.xml")
        words = ["--inventory", cluster.sources[0], *flags, "--junit-xml", str(report)]
        done = process.run((*_PYTEST, str(content.specifications_directory()), *words))
        if done.returncode not in (ALL_PASSED, SOME_FAILED, INTERRUPTED) or not report.exists():
            raise PylaunchError(
                f"pytest could not run the specifications (exit code {done.returncode})",
                evidence=(done.stdout + done.stderr).splitlines()[-20:],
            )
        found = tuple(results(report.read_text(encoding="utf-8")))
    return VerifyReport(found, unreachable, cluster, done.returncode, time.monotonic() - begun)


INSTALL = (sys.executable, "-m", "pip", "install", "pytest", "pytest-testinfra")
"""Not by an extra of `pylaunch`: pip would look for that name in an index."""


def _require_tools() -> None:
    missing = [name for name in ("pytest", "testinfra") if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(f"not installed: {', '.join(missing)}", hint=quoted(INSTALL))
