"""Commands in hints, completed so that they work when they are pasted.

Lower floors write `pylaunch VERB …` with `model.argv.pylaunch`, which quotes for any shell; they do not know the
inventory of this command line. It is added to each command that reads an inventory: in the text, because hints of nodes
and of records were written by other processes.
"""

import contextlib
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pylaunch.base.dataclass import replace
from pylaunch.errors import UsageError
from pylaunch.inventory.load import read_settings, source_of
from pylaunch.model.plan import RunPlan
from pylaunch.model.text.argv import quoted
from pylaunch.store.files import project_environment
from pylaunch.terminal import console
from pylaunch.terminal.doors import Names
from pylaunch.terminal.options import Invocation, current

ENVIRONMENT = "pylaunch provision --roles python_env"
"""Installs a locked environment, which has to exist."""

REQUIREMENTS = ("requirements.txt", "uv.lock", "pylock.toml")
"""Files of a project that `pylaunch env lock` reads, the first that is there is used in hints."""

_HOSTS = re.compile(r"(?<=--limit )(?:[\w.:-]|\[[\d,-]+\]|,(?=[\w]))+")
_PROVISION = re.compile(
    r"(?:pylaunch env lock \S+ && )?pylaunch provision(?: --deep)?(?: --roles (\w+))?(?: --limit \S+)?"
)
_END = re.compile(r"\bpylaunch |[;\n]|\s-- ")
_NAMED = re.compile(r"\s(?:-i|-H|--inventory|--hosts|--scheduler slurm)\b")


def completed(text: str, invocation: Invocation | None = None) -> str:
    """Complete the commands in `text`: add the inventory of this command line where a command reads one and names none,
    quote brackets of hosts, and put `env lock` before a step that needs an environment."""
    given = invocation or current()
    if given.has_slurm_nodes:
        text = _PROVISION.sub(_without_provision, text)
    if ENVIRONMENT in text and not _has_environment(given):
        file = requirements_here() or REQUIREMENTS[0]
        text = text.replace(ENVIRONMENT, f"pylaunch env lock {file} && {ENVIRONMENT}")
    text = _HOSTS.sub(lambda found: quoted((found[0],)), text)
    words = quoted(given.inventory)
    if not (words and given.verbs):
        return text

    def with_inventory(found: re.Match[str]) -> str:
        rest = text[found.end() :]
        end = _END.search(rest)
        named = _NAMED.search(rest[: end.start()] if end is not None else rest)
        return found[0] if named else f"{found[0]} {words}"

    return _commands(given).sub(with_inventory, text)


def _commands(given: Invocation) -> re.Pattern[str]:
    """Return a pattern of the commands that name hosts; after a verb of a run, also of those that name a run."""
    verb = given.verbs.get(given.verb)
    named = (Names.HOSTS, Names.RUN) if verb is not None and verb.names is Names.RUN else (Names.HOSTS,)
    found = [
        f"{name} (?:{'|'.join(each.subcommands)})" if each.subcommands else name
        for name, each in given.verbs.items()
        if each.names in named
    ]
    return re.compile(rf"\bpylaunch (?:{'|'.join(found)})\b(?!-)")


def requirements_here() -> str | None:
    """Return the file in the working directory that `pylaunch env lock` reads; None without one."""
    return next((name for name in REQUIREMENTS if Path(name).is_file()), None)


def _without_provision(found: re.Match[str]) -> str:
    if found[1] == "python_env":
        return "--python PATH of an environment that all nodes of the job see"
    return (
        f"ask the administrator of the nodes for it{f' (role {found[1]}: pylaunch help provision)' if found[1] else ''}"
    )


def as_started(plan: RunPlan, *, for_others: bool = False) -> Invocation:
    """Return the inventory for hints about this run: that of this command line, unless they are read elsewhere, else
    that of the start, which needs no name where it is the one found here."""
    given = replace(current(), has_slurm_nodes=bool(plan.slurm_jobs))
    given = replace(given, inventory=(), source=None) if for_others else given
    if given.inventory or not plan.sources:
        return given
    source = plan.sources[0]
    with contextlib.suppress(UsageError):
        if source == str(source_of(None)):
            return given
    return replace(given, inventory=("-i", source), source=Path(source))


def _has_environment(invocation: Invocation) -> bool:
    """Return True when an environment is locked for the project, or the project is not known."""
    try:
        source, name = source_of(invocation.source), read_settings(Path.cwd()).env_name
    except UsageError:
        return True
    return (project_environment(source or Path("cluster.ini"), name) / "manifest.json").exists()


def of_run(plan: RunPlan, *, for_others: bool = False) -> Callable[[str], str]:
    """Return `completed` for hints about this run."""
    return partial(completed, invocation=as_started(plan, for_others=for_others))


def say(*lines: str, plan: RunPlan | None = None) -> None:
    """Print the next step as a hint, about the run of `plan` if given."""
    complete = completed if plan is None else of_run(plan)
    console.say("\nhint: " + complete("\n      ".join(lines)))
