"""Connections to hosts: SSH and the login shell."""

from collections.abc import Iterable

from pylaunch.checks import mesh
from pylaunch.checks.check import AtStart, Check, asks
from pylaunch.checks.survey import REACH, Survey, not_reached
from pylaunch.model.diagnosis.finding import Finding, Severity

SHELL_PATIENCE_S = 2.0
"""A login shell that does nothing takes some milliseconds; every command of every verb waits for it again."""

_INTERACTIVE = "in its rc files, move it below: case $- in *i*) ;; *) return ;; esac (csh: if (! $?prompt) exit)"


def _shell(survey: Survey) -> Iterable[Finding]:
    for host, found in survey.measured(mesh.SHELL).items():
        if found["noise"]:
            yield Finding(
                "reach.shell", Severity.FAIL, (host,),
                f"the login shell prints into the connection: {found['noise'][0][:120]!r}",
                fix=_INTERACTIVE,
                evidence=tuple(found["noise"]),
            )  # fmt: skip
        if found["seconds"] > SHELL_PATIENCE_S:
            yield Finding(
                "reach.shell", Severity.WARN, (host,),
                f"the login shell takes {found['seconds']:.1f} s before a command runs, expected under "
                f"{SHELL_PATIENCE_S:g}",
                fix=_INTERACTIVE,
            )  # fmt: skip


CHECKS = (
    Check(
        REACH, "hosts answer over SSH",
        "Every action of pylaunch on a host uses SSH.",
        "the answer of OpenSSH",
        Severity.FAIL, lambda host, wanted: {}, lambda survey: not_reached(survey.cluster, survey.unreachable),
        at_start=AtStart.AGENT,
        at_start_why="if only the checks do not reach a host, that is printed",
    ),
    Check(
        "reach.shell", "the login shell prints nothing and is quick",
        "Output of rc files mixes with messages of the agent, and every command waits for them.",
        f"nothing printed; threshold: {SHELL_PATIENCE_S:g} s",
        Severity.FAIL, asks(mesh.SHELL), _shell,
        at_start=AtStart.AGENT,
    ),
)  # fmt: skip
