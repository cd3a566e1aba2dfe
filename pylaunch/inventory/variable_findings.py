"""Judge the variables of a plan or an inventory before a verb acts on them."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from pylaunch.base.rank_environment import AGENT_VARIABLES, Layer, compose
from pylaunch.errors import UsageError
from pylaunch.model.job import USUAL_PORT
from pylaunch.model.plan import PORT_ENTRY, NodeCommand, NodePlan, RunPlan
from pylaunch.model.setting import Circumstances, Judge, LintFinding, LintLevel, Setting, machines, settings_of


def plan_findings(
    plan: RunPlan, commands: Sequence[tuple[NodePlan, NodeCommand]], judge: Judge
) -> tuple[LintFinding, ...]:
    """Return the findings about the environment of a run, each once."""
    circumstances = Circumstances(machines(node.host.rank_address for node in plan.nodes))
    findings: dict[LintFinding, None] = {}
    for _, command in commands:
        # A port that the first node will choose is judged as any port.
        chosen = [
            Setting(name, variable.value.replace(PORT_ENTRY, str(USUAL_PORT)), _where(variable.layer))
            for name, variable in compose(command.layers).items()
            if name not in plan.job.env
        ]
        findings |= dict.fromkeys(judge([*settings_of(plan.job.env, "--env"), *chosen], circumstances))
    findings |= dict.fromkeys(without_effect(plan, [command for _, command in commands]))
    return tuple(findings)


def _where(layer: Layer) -> str:
    return "--interface" if layer is Layer.FLAGS else layer.value


def refuse_errors(findings: Sequence[LintFinding], warn: Callable[[str], None]) -> None:
    """Pass the warnings to `warn`. Raises UsageError when there are errors."""
    for finding in findings:
        if finding.severity is LintLevel.WARNING:
            warn(f"warning: {_with_instead(finding)}")
    errors = [finding for finding in findings if finding.severity is LintLevel.ERROR]
    if errors:
        count = "a variable" if len(errors) == 1 else f"{len(errors)} variables"
        raise UsageError(
            f"{count} cannot be obeyed",
            evidence=[_with_instead(finding) for finding in errors],
            hint="the same for files: pylaunch env lint FILE",
        )


def _with_instead(finding: LintFinding) -> str:
    return f"{finding.line}; instead: {finding.instead}" if finding.instead else finding.line


def without_effect(plan: RunPlan, commands: Iterable[NodeCommand]) -> Iterator[LintFinding]:
    """Yield a warning for each variable of `plan` that the identity of every rank or the agent overrides."""
    identities = [rank.env.keys() for command in commands for rank in command.ranks]
    higher = set(AGENT_VARIABLES).union(set(identities[0]).intersection(*identities[1:]))
    for names, where in ((plan.job.env, "--env"), (plan.job.secrets, "--secret")):
        for name in names:
            if name in higher:
                text = "no effect: pylaunch sets this variable for each rank"
                yield LintFinding(LintLevel.WARNING, where, name, text)
