"""Judges variables as they are set somewhere: unknown names, impossible values, what is better not kept. Pure.

A value is shown only where its variable is known: what somebody put under another name may be a secret.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum, IntEnum

from pylaunch.base.dataclass import dataclass
from pylaunch.model.variables import registry
from pylaunch.model.variables.kinds import Number
from pylaunch.model.variables.variable import Source, Variable


class LintLevel(IntEnum):
    """Level of a finding. An error fails, or does not do what was intended."""

    INFO = 0
    WARNING = 1
    ERROR = 2


class VariablePlace(Enum):
    """Place where a variable is set, as far as that makes a difference."""

    NCCL_CONF = "nccl.conf"
    """File that only NCCL reads."""

    FILE = "file"
    """Kept for every job to come."""

    PROCESS = "process"
    """The environment of one job."""


@dataclass(frozen=True)
class Setting:
    """A variable, set somewhere."""

    name: str
    value: str
    where: str
    """File and line, or the option."""

    place: VariablePlace = VariablePlace.PROCESS


@dataclass(frozen=True)
class LintFinding:
    """Something to say about a setting."""

    severity: LintLevel
    where: str
    subject: str
    """The variable, with its value where that may be shown."""

    message: str
    instead: str | None = None
    """Text to write instead."""

    source: Source | None = None

    @property
    def line(self) -> str:
        """The finding in one line, without its severity."""
        return f"{self.where}: {self.subject}: {self.message}"


@dataclass(frozen=True)
class Circumstances:
    """Facts about the jobs that will have these variables."""

    machines: int | None = None
    """On how many machines they run; None when that is open."""

    debug: LintLevel | None = LintLevel.WARNING
    """Level of a debugging variable that is kept; None allows it."""


def machines(addresses: Iterable[str]) -> int:
    """Count the machines with these addresses; all on loopback are one."""
    return len({"lo" if each == "localhost" or each.startswith("127.") else each for each in addresses})


def lint(settings: Iterable[Setting], circumstances: Circumstances | None = None) -> tuple[LintFinding, ...]:
    """All findings about `settings`, each judged alone; in their order."""
    known = circumstances or Circumstances()
    return tuple(finding for setting in settings for finding in _findings(setting, known))


def _findings(setting: Setting, known: Circumstances) -> Iterator[LintFinding]:
    variable = registry.VARIABLES.get(setting.name)
    if variable is not None:
        yield from _of_known(setting, variable, known)
    elif setting.name in registry.UNREAD:
        unread = registry.UNREAD[setting.name]
        severity = LintLevel.ERROR if setting.place is VariablePlace.NCCL_CONF else LintLevel.WARNING
        yield LintFinding(
            severity,
            setting.where,
            setting.name,
            f"nothing reads it{_but_yours(setting)}",
            unread.instead,
            unread.source,
        )
    elif registry.is_of_a_family(setting.name):
        yield _unknown(setting)
    if setting.place is VariablePlace.NCCL_CONF and not setting.name.startswith("NCCL_"):
        text = "NCCL alone reads this file, too late for others"
        yield LintFinding(LintLevel.WARNING, setting.where, setting.name, text, "set it in the environment of the job")


def _but_yours(setting: Setting) -> str:
    return "" if setting.place is VariablePlace.NCCL_CONF else ", unless your own program does"


def _unknown(setting: Setting) -> LintFinding:
    meant = registry.misspelled(setting.name)
    if meant is not None:
        return LintFinding(LintLevel.ERROR, setting.where, setting.name, "no such variable", meant.name, meant.source)
    like = registry.similar(setting.name)
    text = "not known here: a plug-in's, newer than this list, or a mistake"
    hint = f"did you mean {like.name}?" if like is not None else None
    return LintFinding(LintLevel.WARNING, setting.where, setting.name, text, hint)


def _of_known(setting: Setting, variable: Variable, known: Circumstances) -> Iterator[LintFinding]:
    def found(severity: LintLevel, message: str, instead: str | None = None) -> LintFinding:
        return LintFinding(severity, setting.where, _shown(setting), message, instead, variable.source)

    if variable.until is not None:
        severity = LintLevel.ERROR if setting.place is VariablePlace.NCCL_CONF else LintLevel.WARNING
        yield found(severity, f"nothing reads it since {variable.until}", variable.instead)
        return
    if variable.instead is not None:
        yield found(LintLevel.WARNING, "deprecated", _renamed(setting, variable.instead))
    problem = variable.kind.complaint(setting.value)
    if problem is not None and setting.value:
        yield found(LintLevel.ERROR, problem + _as_read(setting, variable), _repaired(setting, variable))
    elif (
        variable.debug_only
        and setting.place is not VariablePlace.PROCESS
        and known.debug is not None
        and _acts(setting)
    ):
        text = "for debugging: not to be kept, where it makes later jobs slow or makes them fail"
        yield found(known.debug, text, f"--env {setting.name}={setting.value} for one job")


def _shown(setting: Setting) -> str:
    return f"{setting.name}={setting.value}"


def _renamed(setting: Setting, instead: str) -> str:
    return instead if "=" in instead else f"{instead}={setting.value}"


def _acts(setting: Setting) -> bool:
    """It says something else than "off", which is what it is without being set."""
    return setting.value.lower() not in ("", "0", "false", "off", "no", "n", "f")


def _as_read(setting: Setting, variable: Variable) -> str:
    """Value that NCCL uses for text that is no number: it neither warns nor refuses."""
    if not setting.name.startswith("NCCL_") or not isinstance(variable.kind, Number):
        return ""
    if Number().complaint(setting.value) is None:
        return ""
    return f"; NCCL silently takes it for {Number.read(setting.value)}"


def _repaired(setting: Setting, variable: Variable) -> str | None:
    """Return the setting without surplus characters of its value, if that makes the value valid."""
    words = {"true": "1", "yes": "1", "on": "1", "false": "0", "no": "0", "off": "0"}
    bare = setting.value.strip().strip("'\"").strip().replace(", ", ",")
    for value in (bare, words.get(bare.lower(), bare)):
        if variable.kind.complaint(value) is None:
            return f"{setting.name}={value}"
    return None
