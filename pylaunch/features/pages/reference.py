"""Pages of the reference that are made from data: a comment in a page names the data that takes its place.

`<!-- data: errors nccl -->` becomes the causes and texts of one page of signatures. `pylaunch help` and the
documentation site (`make docs`) fill the pages in; nothing generated is committed.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any

import yaml

from pylaunch import features
from pylaunch.checks.check import Check
from pylaunch.checks.suite import CHECKS
from pylaunch.store.content import content_directory, signature_sources, signatures
from pylaunch.terminal.flags.start import options_of
from pylaunch.terminal.options import Group, InJobFile, Option
from pylaunch.verdict.causes.cause_kinds import KINDS
from pylaunch.verdict.causes.xid import XIDS
from pylaunch.verdict.logs.signature import CauseClass, Signature

PLACE = re.compile(r"^<!-- data: ([\w-]+)((?: [\w-]+)*) -->$", re.MULTILINE)

ROLES_OF_TEXTS = """\
A text has a **role**: a *root* may be the cause; a *symptom* is printed because of another rank or node; a *wrapper*
reports an end without a cause; a *warning* counts only where a failure follows, or,
on the page of [waits](errors-waiting.md), where a log ends with it; *benign* text is harmless; *context*
helps to read the others.
"""


def filled(text: str) -> str:
    """Return the text of a page with its data. Raises KeyError for data of an unknown name."""
    return PLACE.sub(lambda found: _DATA[found[1]](*found[2].split()).strip(), text)


def _table(*heads: str, rows: Iterable[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def _errors(page: str) -> str:
    catalogue = signatures()
    causes = [_cause(each) for each in catalogue.causes.values() if each.page == page]
    texts = [_text(each) for each in catalogue.of_page(page)]
    return "\n".join([ROLES_OF_TEXTS, "## Causes\n", *causes, "## Texts\n", *texts])


def _cause(each: CauseClass) -> str:
    fixes = "".join(f"- {fix}\n" for fix in each.fix)
    head = f"### {each.id}\n\nCause: {each.title}. Kind: [{each.kind}](causes.md#kinds).\n\n"
    return f"{head}To be sure: {each.sure}\n\n    {each.check}\n\nFix:\n\n{fixes}"


def _text(each: Signature) -> str:
    named = [cause.id for cause in (each.cause, *each.also) if cause is not None]
    leads = f", {'' if each.also else 'usually '}{' or '.join(named)}" if named else ""
    origin = signature_sources()[each.id]
    sources = " ".join(f"[{number}]({source})" for number, source in enumerate(origin.sources, 1))
    apart = f"Look-alikes: {origin.apart}.\n\n" if origin.apart else ""
    means = f"{each.means} ({each.role.value}{leads})."
    return f"### {each.id}\n\n{means}\n\n    {origin.example}\n\n{apart}Sources: {sources}\n"


def _kinds() -> str:
    classes: dict[str, list[str]] = {}
    for each in signatures().causes.values():
        classes.setdefault(each.kind, []).append(f"[{each.id}](errors-{each.page}.md#{each.id})")
    rows = (
        (f"`{each.id}`", each.meaning, each.question, f"`{each.hint}`" if each.hint else "",
         ", ".join(classes.get(each.id, [])))
        for each in KINDS.values()
    )  # fmt: skip
    return _table("kind", "what happened", "question that settles it", "next command", "classes", rows=rows)


def _xid() -> str:
    cards = sorted(XIDS.values(), key=lambda each: each.code)
    rows = ((str(each.code), each.name, each.kind.value, each.action.value, each.meaning) for each in cards)
    return _table("code", "name", "kind", "first action", "what it means", rows=rows)


def _checks() -> str:
    parts = []
    for subject in dict.fromkeys(check.id.partition(".")[0] for check in CHECKS):
        rows = (_check(check) for check in CHECKS if check.id.partition(".")[0] == subject)
        parts.append(f"## {subject}\n\n" + _table("check", "at worst", "what it compares, and why", rows=rows))
    return "\n".join(parts)


def _check(check: Check) -> tuple[str, ...]:
    return f"`{check.id}`", check.severity.value, f"{check.title}: {check.compares}. {check.why}"


def _checks_at_start() -> str:
    rows = ((f"`{check.id}`", check.at_start.value, check.at_start_why) for check in CHECKS)
    return _table("check", "at start", "note", rows=rows)


def _options() -> str:
    """Return the options of `start`, below their headings."""
    options = (*options_of("start"), *features.options("start"))
    rows = {group: [each for each in options if each.group is group] for group in Group}
    heads = ("option", "default", "in a job file", "field of `Job`", "meaning")
    return "\n".join(
        f"## {group.value}\n\n" + _table(*heads, rows=map(_option, found)) for group, found in rows.items() if found
    )


def _option(each: Option) -> tuple[str, ...]:
    value = "" if each.is_flag else each.metavar or "|".join(each.choices)
    name = " ".join(filter(None, (each.short, each.typed, value)))
    field = f"`{each.field}`" if each.field else ""
    place = {InJobFile.ROLE: "of each role", InJobFile.WHOLE: "of the job", InJobFile.NONE: "no"}[each.in_job_file]
    return f"`{name}`", each.shown_default, place, field, each.help


def _role(name: str) -> str:
    """Return the variables of a role and what its reset undoes."""
    options = _of_role(name, "meta/argument_specs.yml")["argument_specs"]["main"]["options"]
    defaults = _of_role(name, "defaults/main.yml")
    rows = (
        (f"`{each}`", about["type"], _shown(defaults.get(each)), re.sub(r"C\((.*?)\)", r"`\1`", about["description"]))
        for each, about in options.items()
    )
    undone = [task["name"] for task in _of_role(name, "tasks/reset.yml")]
    undone = [each for each in undone if not each.startswith(("Find", "Check", "Flush"))]
    return (
        "## Undo\n\n"
        f"`pylaunch provision -i cluster.ini --roles {name} --reset{' --all' * (name == 'python_env')}` asks, then "
        "does this ([what a reset keeps](../guides/provision.md#undo)):\n\n"
        + "".join(f"- {each}\n" for each in undone)
        + "\n## Variables\n\nSet them in the [inventory](inventory.md), in `group_vars` or in `host_vars`. A misspelt "
        "name and a value of another type are refused before any host is asked.\n\n"
        + _table("variable", "type", "default", "meaning", rows=rows)
    )


def _of_role(name: str, file: str) -> Any:
    return yaml.safe_load((content_directory() / "roles" / name / file).read_text(encoding="utf-8"))


def _shown(value: object) -> str:
    """Return a default as a cell of a table."""
    if value is None:
        return ""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if "{{" in text:
        return "computed"
    return f"`{text[:50]}`…" if len(text) > 60 else f"`{text}`" if text else '`""`'


_DATA: dict[str, Callable[..., str]] = {
    "errors": _errors,
    "kinds": _kinds,
    "xid": _xid,
    "checks": _checks,
    "checks-at-start": _checks_at_start,
    "options": _options,
    "role": _role,
}
