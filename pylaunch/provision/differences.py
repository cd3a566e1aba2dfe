"""Diffs of files. Hosts send contents only of files that differ."""

import difflib
from collections.abc import Mapping

from pylaunch.base.dataclass import dataclass
from pylaunch.model.cluster import Cluster
from pylaunch.probe.answers import Unmeasured
from pylaunch.provision.convergence import ProvisionSurvey
from pylaunch.provision.observed.drift import is_wanted
from pylaunch.provision.observed.facts import Facts
from pylaunch.provision.observed.probe import probe_hosts
from pylaunch.provision.state import questions


@dataclass(frozen=True)
class FileDifference:
    """A change of one file, as the lines of a unified diff."""

    role: str
    path: str
    lines: tuple[str, ...]

    @property
    def count(self) -> str:
        """Added and removed lines: "+1 -2"."""
        bodies = self.lines[2:]
        added, removed = (sum(line.startswith(sign) for line in bodies) for sign in "+-")
        return f"+{added} -{removed}"


def file_differences(cluster: Cluster, found: ProvisionSurvey) -> dict[str, tuple[FileDifference, ...]]:
    """Return the changes of files and blocks, by host; hosts without changes are omitted."""
    differs = {(host, change.subject) for host, changes in found.changes.items() for change in changes}
    wanted = {
        host: [
            (state.role, file)
            for state in found.desired.hosts[host]
            for file in state.files
            if (host, file.path) in differs and is_wanted(file, facts)
        ]
        for host, facts in found.facts.items()
    }
    there = _contents(cluster, {host: [file.path for _, file in files] for host, files in wanted.items() if files})
    answer: dict[str, tuple[FileDifference, ...]] = {}
    for host, facts in found.facts.items():
        whole = [
            line_difference(role, file.path, there[host].get(file.path), file.content) for role, file in wanted[host]
        ]
        together = [each for each in (*whole, *_blocks(host, facts, found)) if each is not None]
        if together:
            answer[host] = tuple(together)
    return answer


def _contents(cluster: Cluster, paths: Mapping[str, list[str]]) -> dict[str, dict[str, str | None]]:
    asked = {host: {**questions(()), "contents": each} for host, each in paths.items()}
    answers = probe_hosts(cluster.only(asked), asked)
    return {
        host: {
            path: text
            for path in paths[host]
            if isinstance(answer, Facts) and not isinstance(text := answer.contents[path], Unmeasured)
        }
        for host, answer in answers.items()
    }


def _blocks(host: str, facts: Facts, found: ProvisionSurvey) -> list[FileDifference | None]:
    answer = []
    for state in found.desired.hosts[host]:
        for block in state.blocks:
            there = facts.blocks[f"{block.path}\n{block.begin}"]
            if not isinstance(there, Unmeasured):
                wanted = block.content.replace("@hostname@", facts.hostname).strip("\n")
                answer.append(line_difference(state.role, block.path, there, wanted))
    return answer


def line_difference(role: str, path: str, there: str | None, wanted: str) -> FileDifference | None:
    """Return the diff from `there` to `wanted`; None where only mode or owner differ."""
    names = ("/dev/null" if there is None else path, path)
    lines = difflib.unified_diff((there or "").splitlines(), wanted.splitlines(), *names, n=1, lineterm="")
    difference = FileDifference(role, path, tuple(lines))
    return difference if difference.lines else None
