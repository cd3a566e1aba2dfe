"""Flags and secrets that have no effect, because a higher layer of the environment sets the same variable. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pylaunch.base.rank_environment import AGENT_VARIABLES
from pylaunch.model.plan import NodeCommand, RunPlan
from pylaunch.model.variables.lint import LintFinding, LintLevel


def without_effect(plan: RunPlan, commands: Iterable[NodeCommand]) -> Iterator[LintFinding]:
    """Yield a warning for each variable of `plan` that the identity of a rank or the agent overrides."""
    higher = {name for command in commands for rank in command.ranks for name in rank.env} | set(AGENT_VARIABLES)
    for names, where in ((plan.job.env, "--env"), (plan.job.secrets, "--secret")):
        for name in names:
            if name in higher:
                text = "no effect: pylaunch sets this variable for each rank"
                yield LintFinding(LintLevel.WARNING, where, name, text)
