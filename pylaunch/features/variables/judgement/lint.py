"""Judges variables as they are set somewhere: unknown names, impossible values, what is better not kept. Pure.

A value is shown only where its variable is known: what somebody put under another name may be a secret.
"""

from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from pylaunch.features.variables.judgement.catalogue import Catalogue, catalogue
from pylaunch.model.setting import Circumstances, LintFinding, LintLevel, Setting, VariablePlace

_ONE_SLIP = 0.92
"""Likeness of two names that differ by one or two letters."""

_ALIKE = 0.8
_OFF = ("", "0", "false", "off", "no", "n", "f")


def lint(settings: Iterable[Setting], circumstances: Circumstances | None = None) -> tuple[LintFinding, ...]:
    """All findings about `settings`, each judged alone; in their order."""
    known, names = circumstances or Circumstances(), catalogue()
    return tuple(finding for setting in settings for finding in _findings(setting, known, names))


def _findings(setting: Setting, known: Circumstances, names: Catalogue) -> Iterator[LintFinding]:
    name, is_nccls = setting.name, setting.place is VariablePlace.NCCL_CONF
    unread = LintLevel.ERROR if is_nccls else LintLevel.WARNING
    if name in names.sources:
        yield from _of_known(setting, known, names)
    elif name in names.removed:
        last, instead = names.removed[name]
        text = f"nothing reads it since NCCL {last}"
        yield LintFinding(unread, setting.where, f"{name}={setting.value}", text, instead or None)
    elif name in names.unread:
        text = "nothing reads it" if is_nccls else "nothing reads it, unless your own program does"
        yield LintFinding(unread, setting.where, name, text, names.unread[name])
    elif name.startswith(names.complete):
        yield _unknown(setting, names)
    if is_nccls and not name.startswith("NCCL_"):
        text = "NCCL alone reads this file, too late for others"
        yield LintFinding(LintLevel.WARNING, setting.where, name, text, "set it in the environment of the job")


def _unknown(setting: Setting, names: Catalogue) -> LintFinding:
    meant = get_close_matches(setting.name, names.sources, n=1, cutoff=_ONE_SLIP)
    if meant:
        return LintFinding(LintLevel.ERROR, setting.where, setting.name, "no such variable", meant[0])
    like = get_close_matches(setting.name, names.sources, n=1, cutoff=_ALIKE)
    text = "not known here: a plug-in's, newer than this list, or a mistake"
    return LintFinding(
        LintLevel.WARNING, setting.where, setting.name, text, f"did you mean {like[0]}?" if like else None
    )


def _of_known(setting: Setting, known: Circumstances, names: Catalogue) -> Iterator[LintFinding]:
    name, value = setting.name, setting.value

    def found(level: LintLevel, message: str, instead: str | None = None) -> LintFinding:
        return LintFinding(level, setting.where, f"{name}={value}", message, instead, names.sources[name])

    if (new := names.renamed.get(name)) is not None:
        yield found(LintLevel.WARNING, "deprecated", new if "=" in new else f"{new}={value}")
    if value and (problem := names.complaint(name, value)) is not None:
        yield found(LintLevel.ERROR, problem, _repaired(setting, names))
        return
    is_kept = setting.place is not VariablePlace.PROCESS and value.lower() not in _OFF
    if name in names.debug_only and is_kept and known.debug is not None:
        text = "for debugging: not to be kept, where it makes later jobs slow or makes them fail"
        yield found(known.debug, text, f"--env {name}={value} for one job")


def _repaired(setting: Setting, names: Catalogue) -> str | None:
    """Return the setting without surplus characters of its value, if that makes the value valid."""
    words = {"true": "1", "yes": "1", "on": "1", "false": "0", "no": "0", "off": "0"}
    bare = setting.value.strip().strip("'\"").strip().replace(", ", ",")
    for value in (bare, words.get(bare.lower(), bare)):
        if names.complaint(setting.name, value) is None:
            return f"{setting.name}={value}"
    return None
