"""Lint of the variables that the inventory sets on every host, before any host is changed. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pylaunch.model.hostset import fold
from pylaunch.model.variables.lint import (
    Circumstances,
    LintFinding,
    LintLevel,
    Setting,
    VariablePlace,
    machines,
)
from pylaunch.model.variables.together import judge
from pylaunch.provision.state import RoleState


def lint_variables(hosts: Mapping[str, Sequence[RoleState]]) -> tuple[LintFinding, ...]:
    """Return findings about the variables of all hosts; equal findings are merged."""
    alike: dict[tuple[tuple[tuple[str, str], ...], bool, int], list[str]] = {}
    for host, states in hosts.items():
        for state in states:
            for each in state.communications:
                key = (tuple(each.variables.items()), each.allow_debug, machines(each.peers))
                alike.setdefault(key, []).append(host)
    findings: list[LintFinding] = []
    for (variables, allow_debug, count), names in alike.items():
        where = f"nccl_env_variables of {fold(names)}"
        settings = [Setting(name, value, where, VariablePlace.FILE) for name, value in variables]
        debug = None if allow_debug else LintLevel.ERROR
        findings += judge(settings, Circumstances(count, debug))
    return tuple(findings)
