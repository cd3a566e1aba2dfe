"""Code and files of the ranks: they must be the same on every node."""

from collections.abc import Iterable, Mapping
from typing import Any

from pylaunch.agent.probe.readers.hosts import code as code_readers
from pylaunch.checks.check import AtStart, Check
from pylaunch.checks.hosts.storage import hosts_without_workdir
from pylaunch.checks.survey import Survey, Wanted
from pylaunch.model.cluster import Host
from pylaunch.model.diagnosis.finding import Finding, Severity
from pylaunch.model.diagnosis.majority import majority
from pylaunch.model.hostset import fold

NONE = "none"


def _ask_files(host: Host, wanted: Wanted) -> dict[str, Any]:
    # Arguments that are files are configuration: `--config base.yaml`, `--config=base.yaml`.
    words = [word.rpartition("=")[2] for word in wanted.command[1:] if not word.startswith("-") or "=" in word]
    named = [path for path in dict.fromkeys((wanted.script, *wanted.files)) if path]
    candidates = [word for word in dict.fromkeys(words) if word and "\0" not in word and word not in named]
    if not (named or candidates) or not wanted.workdir:
        return {}
    return code_readers.files.ask({"workdir": wanted.workdir, "paths": named, "candidates": candidates})


def _ask_tree(host: Host, wanted: Wanted) -> dict[str, Any]:
    return code_readers.tree.ask(wanted.workdir) if wanted.workdir and wanted.script else {}


def _is_inside(path: str) -> bool:
    """Return whether `path` is in the working directory."""
    return not path.startswith("/") and ".." not in path.split("/")


def _files(survey: Survey) -> Iterable[Finding]:
    without_workdir = hosts_without_workdir(survey)
    named = [path for path in (survey.wanted.script, *survey.wanted.files) if path]
    contents = survey.measured(code_readers.files)
    for host, found in contents.items():
        for path in named:
            if found.get(path) == "" and not (host in without_workdir and _is_inside(path)):
                text, fix = f"{path} does not exist", _copy(survey, path)
                if _is_inside(path):
                    text, fix = f"{text} in {survey.wanted.workdir}", f"take the code along with --sync ., or {fix}"
                yield Finding("code.files", Severity.FAIL, (host,), text, fix)
    yield from _differences(survey, "code.files", Severity.FAIL, contents)


def _tree(survey: Survey) -> Iterable[Finding]:
    found = {host: each for host, each in survey.measured(code_readers.tree).items() if each is not None}
    beyond = tuple(host for host, each in found.items() if not each["complete"])
    if beyond:
        text = f"{survey.wanted.workdir} holds more code than is compared: only named files were"
        yield Finding("code.tree", Severity.UNKNOWN, beyond, text, "name what is no code in .pylaunchignore")
        return
    named = {path for each in survey.measured(code_readers.files).values() for path in each}
    trees = {
        host: {path: content for path, content in each["files"].items() if path not in named}
        for host, each in found.items()
    }
    yield from _differences(survey, "code.tree", Severity.WARN, trees)


def _differences(
    survey: Survey, check: str, severity: Severity, trees: Mapping[str, Mapping[str, str]]
) -> Iterable[Finding]:
    """Return a finding for each content that differs from the majority of `trees`: host → path → hash."""
    named = (survey.wanted.script, *survey.wanted.files)
    for path in sorted({path for each in trees.values() for path in each}):
        division = majority({host: each.get(path) or NONE for host, each in trees.items()})
        # Of two groups without a majority, the one that lacks the file is reported.
        is_lacked = not division.usual_hosts and len(division.odd) == 2 and NONE in dict(division.odd)
        for content, hosts in division.odd:
            if (content == NONE and path in named) or (content != NONE and is_lacked):
                continue  # The former are missing: a finding of their own.
            others = division.usual_hosts or tuple(host for _, each in division.odd for host in each if each != hosts)
            what = "is missing" if content == NONE else "is only here" if division.usual == NONE else "differs"
            yield Finding(check, severity, hosts, f"{path} {what}, compared with {fold(others)}", _copy(survey, path))


def _copy(survey: Survey, path: str) -> str:
    where = path if path.startswith("/") else f"{survey.wanted.workdir.rstrip('/')}/{path}"
    return f"copy the right {where} to {{hosts}}"


CHECKS = (
    Check(
        "code.files",
        "the script and the files named for the run",
        "A node with an older script or configuration trains another model, or hangs where the others communicate.",
        "the majority, by content: the script, --file, and words of the command line that are code or configuration",
        Severity.FAIL,
        _ask_files,
        _files,
        at_start=AtStart.ASKED,
    ),
    Check(
        "code.tree",
        "all other code below the working directory",
        "A module that was edited on one node is imported only there.",
        "the majority, by content: files with an extension of source code that .gitignore and .pylaunchignore do not"
        " name; not in / or a home directory; up to 2000 files and 32 MiB",
        Severity.WARN,
        _ask_tree,
        _tree,
        at_start=AtStart.ASKED,
    ),
)
