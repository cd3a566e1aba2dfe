"""Lint of the variables that the inventory sets on every host, before any host is changed. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pylaunch.model.hostset import fold
from pylaunch.model.setting import Circumstances, Judge, LintFinding, LintLevel, VariablePlace, machines, settings_of
from pylaunch.provision.state import RoleState


def lint_variables(hosts: Mapping[str, Sequence[RoleState]], judge: Judge) -> tuple[LintFinding, ...]:
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
        debug = None if allow_debug else LintLevel.ERROR
        findings += judge(settings_of(dict(variables), where, VariablePlace.FILE), Circumstances(count, debug))
    return tuple(findings)
