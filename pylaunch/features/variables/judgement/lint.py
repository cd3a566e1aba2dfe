"""Judges variables as they are set somewhere: unknown names, impossible values, what is better not kept. Pure.

A value is shown only where its variable is known: what somebody put under another name may be a secret.
"""

from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from pylaunch.features.variables.judgement import frameworks, nccl
from pylaunch.features.variables.judgement.kinds import Number
from pylaunch.features.variables.judgement.variable import UnreadVariable, Variable
from pylaunch.model.setting import Circumstances, LintFinding, LintLevel, Setting, VariablePlace

VARIABLES = {each.name: each for each in (*nccl.VARIABLES, *frameworks.VARIABLES)}
UNREAD: dict[str, UnreadVariable] = {each.name: each for each in (*nccl.UNREAD, *frameworks.UNREAD)}

FAMILIES = ("NCCL_", "TORCH_NCCL_", "TORCH_FR_", "TORCHELASTIC_", "GLOO_", "JAX_", "XLA_PYTHON_CLIENT_", "XLA_CLIENT_")
"""Names that begin so are known completely: one that is not in the registry is a mistake, or newer than it."""

_ONE_SLIP = 0.92
"""Likeness of two names of these families that differ by one or two letters."""

_ALIKE = 0.8


def _nearest(name: str, likeness: float) -> Variable | None:
    found = get_close_matches(name, VARIABLES, n=1, cutoff=likeness)
    return VARIABLES[found[0]] if found else None


def lint(settings: Iterable[Setting], circumstances: Circumstances | None = None) -> tuple[LintFinding, ...]:
    """All findings about `settings`, each judged alone; in their order."""
    known = circumstances or Circumstances()
    return tuple(finding for setting in settings for finding in _findings(setting, known))


def _findings(setting: Setting, known: Circumstances) -> Iterator[LintFinding]:
    variable = VARIABLES.get(setting.name)
    if variable is not None:
        yield from _of_known(setting, variable, known)
    elif setting.name in UNREAD:
        unread = UNREAD[setting.name]
        severity = LintLevel.ERROR if setting.place is VariablePlace.NCCL_CONF else LintLevel.WARNING
        yield LintFinding(
            severity,
            setting.where,
            setting.name,
            f"nothing reads it{_but_yours(setting)}",
            unread.instead,
            unread.source,
        )
    elif setting.name.startswith(FAMILIES):
        yield _unknown(setting)
    if setting.place is VariablePlace.NCCL_CONF and not setting.name.startswith("NCCL_"):
        text = "NCCL alone reads this file, too late for others"
        yield LintFinding(LintLevel.WARNING, setting.where, setting.name, text, "set it in the environment of the job")


def _but_yours(setting: Setting) -> str:
    return "" if setting.place is VariablePlace.NCCL_CONF else ", unless your own program does"


def _unknown(setting: Setting) -> LintFinding:
    meant = _nearest(setting.name, _ONE_SLIP)
    if meant is not None:
        return LintFinding(LintLevel.ERROR, setting.where, setting.name, "no such variable", meant.name, meant.source)
    like = _nearest(setting.name, _ALIKE)
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
