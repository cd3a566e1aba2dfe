"""Reads files that set variables: NCCL's own, with its grammar, and NAME=VALUE files as shells take them.

NCCL's grammar (its source, src/misc/param.cc): a line is a comment when its very first character is #; it is split at
the first =; nothing is trimmed, no quotes are taken away, there is no export. What does not fit is silently skipped, or
sets a variable of a strange name.
"""

import re
from collections.abc import Iterator

from pylaunch.model.setting import LintFinding, LintLevel, Setting, Source, VariablePlace

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONGEST_VALUE = 1023
_CODE = Source("NCCL source, src/misc/param.cc", "https://github.com/NVIDIA/nccl")
_Read = tuple[list[Setting], list[LintFinding]]


def read_nccl_conf(text: str, path: str) -> _Read:
    """Return the settings in an nccl.conf, and findings about lines that NCCL does not read as intended."""
    settings: list[Setting] = []
    findings: list[LintFinding] = []
    for number, line in enumerate(text.splitlines(), 1):
        where = f"{path}:{number}"
        if not line.strip() or line.startswith("#"):
            continue
        problems = list(_problems(line, where))
        findings += problems
        name, equals, value = line.partition("=")
        name = name.strip().removeprefix("export ").strip()
        if equals and _NAME.fullmatch(name):
            meant = _unquoted(value.strip()) if problems else value
            settings.append(Setting(name, meant, where, VariablePlace.NCCL_CONF))
    return settings, findings


def _problems(line: str, where: str) -> Iterator[LintFinding]:
    name, equals, value = line.partition("=")
    bare = name.strip().removeprefix("export ").strip()
    shown = bare if _NAME.fullmatch(bare) else "this line"

    def wrong(message: str, instead: str | None) -> LintFinding:
        return LintFinding(LintLevel.ERROR, where, shown, message, instead, _CODE)

    if line.lstrip().startswith("#"):
        yield wrong("a comment begins in the first column; NCCL takes this for a setting", "# in front of all blanks")
        return
    if not equals:
        yield wrong("NCCL skips a line without =", "NAME=VALUE")
        return
    if name != name.strip() or name.strip() != bare:
        what = "export" if name.strip() != bare else "a blank"
        yield wrong(f"{what} becomes part of the name, which nothing reads", f"{bare}=…, without it")
    elif not _NAME.fullmatch(bare):
        yield wrong("the part before = is no name", "NAME=VALUE")
    if value != value.strip():
        yield wrong("blanks around the value become part of it", f"{bare}=…, without blanks")
    if value.strip()[:1] in ("'", '"'):
        yield wrong("quotes become part of the value", f"{bare}=…, without quotes")
    elif re.search(r"\s#", value):
        yield wrong("what follows # becomes part of the value", "the comment in a line of its own")
    if len(value) > _LONGEST_VALUE:
        yield wrong(f"NCCL cuts the value after {_LONGEST_VALUE} characters", None)


def read_environment_file(text: str, path: str, place: VariablePlace = VariablePlace.FILE) -> _Read:
    """Return the settings in a file of NAME=VALUE lines; `export`, quotes and comments are read as in a shell."""
    settings: list[Setting] = []
    findings: list[LintFinding] = []
    for number, line in enumerate(text.splitlines(), 1):
        where, body = f"{path}:{number}", line.strip()
        if not body or body.startswith("#"):
            continue
        name, equals, value = body.removeprefix("export ").strip().partition("=")
        if not equals or not _NAME.fullmatch(name):
            findings.append(LintFinding(LintLevel.ERROR, where, "this line", "expected NAME=VALUE"))
        else:
            settings.append(Setting(name, _unquoted(value), where, place))
    return settings, findings


def _unquoted(value: str) -> str:
    quoted = re.match(r"\"([^\"]*)\"|'([^']*)'", value)
    if quoted:
        return quoted[1] if quoted[1] is not None else quoted[2]
    return re.sub(r"\s+#.*", "", value).strip()
