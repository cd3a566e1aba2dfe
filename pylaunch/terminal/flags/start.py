"""From the words of a start to its job: options, each declared once; variables; the program, another launcher's command
line, and the framework that fits."""

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pylaunch.agent.shared.scripts import DEFAULT, choose, needs_mpi, read_program
from pylaunch.base.dataclass import dataclass, fields, replace
from pylaunch.errors import UsageError
from pylaunch.model.job import EVERY, VARIABLE, Framework, JobSpec, OnHang
from pylaunch.model.pasted import Pasted, described_line, program_after, taken_apart
from pylaunch.model.secret import Secrets, sounds_secret
from pylaunch.model.text.argv import Argv, pylaunch, quoted
from pylaunch.runs.sync.tree import Tree
from pylaunch.terminal import console, options
from pylaunch.terminal.flags import sync
from pylaunch.terminal.options import Group, InJobFile, Option, seconds, whole

if TYPE_CHECKING:
    from pylaunch.runs.start import StartOptions

AUTO, OFF = "auto", "off"
PLANS = ("start", "check", "render")
"""Verbs that plan a job from the same words."""


def _ranks(text: str) -> int | None:
    try:
        return None if text == AUTO else whole(text)
    except ValueError:
        raise ValueError("expected auto or a whole number from 1 on") from None


def _or_off(text: str) -> timedelta | None:
    try:
        return None if text == OFF else seconds(text)
    except ValueError:
        raise ValueError(f"expected a number of seconds, or {OFF}") from None


def _or_none(text: str) -> str | None:
    return text or None


@dataclass(frozen=True)
class Environment:
    """Variables of a run by name."""

    plain: Mapping[str, str]
    secrets: Secrets


def environment(variables: Sequence[str], names: Sequence[str], ours: Mapping[str, str]) -> Environment:
    """Return the variables of --env and --secret; `ours` is the environment of pylaunch.

    A variable with the name of a secret becomes one, whichever option sets it. Raises UsageError for variables that do
    not exist, and for those that are set as plain and as secret.
    """
    plain = dict(_variable(word, ours) for word in variables)
    secrets = dict(earlier_secrets(names, ours))
    if both := sorted(plain.keys() & secrets.keys()):
        raise UsageError(f"{', '.join(both)}: given as a variable and as a secret", hint="omit --env")
    secrets |= {name: value for name, value in plain.items() if sounds_secret(name)}
    return Environment({name: value for name, value in plain.items() if name not in secrets}, Secrets(secrets))


def earlier_secrets(names: Sequence[str], ours: Mapping[str, str]) -> Secrets:
    """Return the secrets `names` with their values in `ours`. Raises UsageError for a missing one."""
    return Secrets({_secret_name(name, ours): ours[name] for name in names})


def _variable(word: str, ours: Mapping[str, str]) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not VARIABLE.fullmatch(name):
        raise UsageError(f"--env {name}: expected NAME=VALUE or NAME", hint="--env NCCL_DEBUG=WARN")
    if equals:
        return name, value
    if name not in ours:
        raise UsageError(f"--env {name}: there is no such variable here", hint=f"--env {name}=VALUE")
    return name, ours[name]


def _secret_name(word: str, ours: Mapping[str, str]) -> str:
    name, equals, _ = word.partition("=")
    if not VARIABLE.fullmatch(name):
        raise UsageError("--secret: expected the NAME of a variable", hint="--secret HF_TOKEN")
    if equals:
        raise UsageError(
            f"--secret {name}=…: a value on a command line can be read by everybody on this machine",
            hint=f"--secret {name}, with {name} in the environment",
        )
    if name not in ours:
        raise UsageError(f"--secret {name}: there is no such variable here", hint=f"read -rs {name} && export {name}")
    return name


@dataclass(frozen=True, kw_only=True)
class StartFlags:
    """Values of the options of `pylaunch start`, and the options themselves."""

    words: Argv = ()

    sync: Annotated[str | None, Option(
        help="Ship this directory to all nodes and start in it; ignores what .gitignore does.",
        group=Group.FIRST, metavar="DIR", verbs=("start", "check"),
    )] = None  # fmt: skip

    nodes: Annotated[int | None, Option(
        help="Take the first N hosts; with Slurm, request N nodes.",
        group=Group.FIRST, metavar="N", parse=whole, field="nodes", verbs=PLANS, in_job_file=InJobFile.NONE,
    )] = JobSpec.nodes  # fmt: skip

    nproc_per_node: Annotated[int | None, Option(
        help="Ranks on each node; auto is one per device of the inventory, or one where it lists none.",
        group=Group.FIRST, metavar="auto|N", parse=_ranks, none=AUTO, field="ranks_per_node", verbs=PLANS,
    )] = JobSpec.ranks_per_node  # fmt: skip

    env: Annotated[tuple[str, ...], Option(
        help="Set in every rank; without =VALUE the value that pylaunch itself has. Repeatable.",
        group=Group.FIRST, metavar="NAME[=VALUE]", multiple=True, verbs=PLANS,
    )] = ()  # fmt: skip

    python: Annotated[str | None, Option(
        help="Interpreter of the ranks.",
        group=Group.FIRST, metavar="PATH", parse=_or_none, none="the provisioned environment",
        field="python", verbs=PLANS,
    )] = JobSpec.python  # fmt: skip

    max_restarts: Annotated[int, Option(
        help="Start again, up to N times, after a failure.",
        group=Group.FIRST, metavar="N", parse=whole, field="max_restarts", verbs=("start", "render torchrun"),
    )] = JobSpec.max_restarts  # fmt: skip

    detach: Annotated[bool, Option(
        help="Return when the ranks run; pylaunch attach follows a run again, pylaunch logs -f a job.",
        group=Group.FIRST, in_job_file=InJobFile.NONE, verbs=("start", "rerun"),
    )] = False  # fmt: skip

    dry_run: Annotated[bool, Option(
        help="Print the plan and leave; no host is contacted.",
        group=Group.FIRST, in_job_file=InJobFile.WHOLE,
    )] = False  # fmt: skip

    spares: Annotated[int, Option(
        help="Keep N hosts ready to replace nodes that fail.",
        group=Group.WHERE, metavar="N", parse=whole, field="spares",
    )] = JobSpec.spares  # fmt: skip

    min_nodes: Annotated[int | None, Option(
        help="Restart on as few as N nodes.",
        group=Group.WHERE, metavar="N", parse=whole, none="all", field="min_nodes",
    )] = JobSpec.min_nodes  # fmt: skip

    port: Annotated[int | None, Option(
        help="Rendezvous port on the first node.",
        group=Group.WHERE, metavar="N", parse=whole, none="one that is free there, or what a rendered file says",
        field="rendezvous_port", verbs=PLANS,
    )] = JobSpec.rendezvous_port  # fmt: skip

    interface: Annotated[str | None, Option(
        help="Network interface of the ranks on every node.",
        group=Group.WHERE, metavar="NAME", parse=_or_none, none="the inventory's, else by route to the other nodes",
        field="interface", verbs=PLANS,
    )] = JobSpec.interface  # fmt: skip

    queue: Annotated[bool, Option(
        help="Wait while other runs hold the devices or port.",
        group=Group.WHERE, in_job_file=InJobFile.NONE, verbs=("start", "rerun"),
    )] = False  # fmt: skip

    clean: Annotated[bool, Option(
        help="First end processes on the hosts that nobody runs any more.",
        group=Group.WHERE, in_job_file=InJobFile.NONE, verbs=("start", "rerun"),
    )] = False  # fmt: skip

    skip: Annotated[str | None, Option(
        help=f"Not these checks or subjects, comma-separated: storage,code.tree; {EVERY} is every check.",
        group=Group.WHERE, metavar="IDS", verbs=("start", "check"),
    )] = None  # fmt: skip

    start_timeout: Annotated[timedelta, Option(
        help="Seconds nodes may take to be ready.",
        group=Group.WHERE, metavar="SECONDS", parse=seconds, field="start_timeout",
    )] = JobSpec.start_timeout  # fmt: skip

    framework: Annotated[str, Option(
        help="How ranks are started; auto reads what SCRIPT imports, and is command for any other program.",
        group=Group.WHAT, choices=(AUTO, *(each.value for each in Framework)),
        verbs=("start", "check", "render slurm"),
    )] = AUTO  # fmt: skip

    module: Annotated[bool, Option(
        help="SCRIPT is a module, as in python -m.", group=Group.WHAT, short="-m", verbs=PLANS,
    )] = False  # fmt: skip

    workdir: Annotated[str | None, Option(
        help="Directory on every node to start in.",
        group=Group.WHAT, metavar="DIR", none="this directory", verbs=PLANS,
    )] = None  # fmt: skip

    sync_exclude: Annotated[tuple[str, ...], Option(
        help="Leave these out, as in .gitignore; '!PATTERN' ships what .gitignore leaves out. Repeatable.",
        group=Group.CODE, metavar="PATTERN", multiple=True, verbs=("start", "check"),
    )] = ()  # fmt: skip

    secret: Annotated[tuple[str, ...], Option(
        help="Give ranks this variable of ours; its value is never printed or recorded. Repeatable.",
        group=Group.CODE, metavar="NAME", multiple=True, verbs=PLANS,
    )] = ()  # fmt: skip

    grace: Annotated[timedelta | None, Option(
        help="From SIGTERM to SIGKILL.",
        group=Group.FAILURE, metavar="SECONDS", parse=seconds, none="10 when you stop the run, 1 after a failure",
        field="grace",
    )] = JobSpec.grace  # fmt: skip

    node_timeout: Annotated[timedelta, Option(
        help="Seconds of silence until a node is lost.",
        group=Group.FAILURE, metavar="SECONDS", parse=seconds, field="node_timeout",
    )] = JobSpec.node_timeout  # fmt: skip

    on_hang: Annotated[OnHang, Option(
        help="When ranks do not advance: report it, end the run, or restart it (with --max-restarts).",
        group=Group.HANG, choices=tuple(each.value for each in OnHang), parse=OnHang, field="on_hang",
    )] = JobSpec.on_hang  # fmt: skip

    hang_after: Annotated[timedelta | None, Option(
        help="Examine the ranks for a hang after this long without output, steps or collectives.",
        group=Group.HANG, metavar=f"SECONDS|{OFF}", parse=_or_off, none=OFF, field="hang_after",
    )] = JobSpec.hang_after  # fmt: skip

    no_rank_thread: Annotated[bool, Option(
        help="Run nothing of pylaunch in the ranks: stacks are those of the kernel, and collectives are "
        "unknown.",
        group=Group.HANG,
    )] = False  # fmt: skip

    ends_with_controller: bool = False
    """No option: parts of a job end with the controller that started them."""

    def job(
        self, words: Argv, framework: Framework, env: Environment, tree: Tree | None, *, is_unread: bool
    ) -> JobSpec:
        """Return the job. Raises UsageError for values that no job can have, and for a script that is not in `tree`."""
        own: dict[str, Any] = {each.field: getattr(self, each.name) for each in OPTIONS if each.field}
        job = JobSpec(
            command=words,
            framework=framework,
            workdir=self.workdir or str(Path.cwd()) if tree is None else sync.workdir(self.workdir, tree),
            is_unread=is_unread,
            env=env.plain,
            secrets=tuple(env.secrets),
            sync=None if tree is None else sync.as_asked(tree, self.sync_exclude),
            rank_thread=not self.no_rank_thread,
            skipped_checks=options.words(self.skip),
            ends_with_controller=self.ends_with_controller,
            **own,
        )
        if tree is not None and words[0] and (framework is not Framework.COMMAND or "/" in words[0]):
            sync.check_script(tree, job.workdir, job.script)
        return job


OPTIONS: tuple[Option, ...] = tuple(
    replace(each.type.__metadata__[0], name=each.name, default=each.default)
    for each in fields(StartFlags)
    if hasattr(each.type, "__metadata__")
)
"""The options of the core; those of features are beside them (`features.options`)."""


def options_of(*verbs: str) -> tuple[Option, ...]:
    """Return the options that one of `verbs` has."""
    return tuple(each for each in OPTIONS if not set(verbs).isdisjoint(each.verbs))


def source_directory(workdir: str | None, tree: Tree | None) -> str:
    """Return the directory on this machine that has the source of the program."""
    return str((Path.cwd() if tree is None else tree.directory) / (workdir or ""))


OF_SHELL = frozenset("&|;<>$`")
SHELL_WORDS = ("source", ".", "cd", "export", "ulimit", "module")


@dataclass(frozen=True)
class Program:
    """A program, and the framework that starts its ranks."""

    words: Argv
    """A script or program and its arguments, or `-m MODULE` and its arguments."""

    framework: Framework
    is_unread: bool = False
    """--framework auto chose without the source, which is not on this machine."""


@dataclass(frozen=True)
class Requested:
    """Request of the flags; nothing in it depends on the nodes."""

    flags: StartFlags
    """With the options of the command line of another launcher."""

    job: JobSpec
    secrets: Secrets
    tree: Tree | None

    def options(self) -> "StartOptions":
        """Return the options of the start that are no part of its job."""
        return start_options(self.flags, self.job, self.secrets, self.tree)


def requested(
    typed: StartFlags,
    ours: Mapping[str, str],
    tree_of: Callable[[str, tuple[str, ...]], Tree] = sync.given,
) -> Requested:
    """Return the job of `typed`; `ours` is the environment of pylaunch, `tree_of` reads the tree to ship.

    Raises UsageError for what cannot be started.
    """
    tree = None if typed.sync is None else tree_of(typed.sync, typed.sync_exclude)
    if tree is None and typed.sync_exclude:
        raise UsageError("--sync-exclude goes with --sync", hint="--sync .")
    try:
        chosen, flags = understood(typed, tree)
    except UsageError as error:
        if typed.sync is not None and error.hint is not None:
            ship = pylaunch("start", "--sync", typed.sync)
            error.hint = error.hint.replace("pylaunch start", ship)
        raise
    env = environment(flags.env, flags.secret, ours)
    job = flags.job(chosen.words, chosen.framework, env, tree, is_unread=chosen.is_unread)
    return Requested(flags, job, env.secrets, tree)


def start_options(flags: StartFlags, job: JobSpec, secrets: Secrets, tree: Tree | None) -> "StartOptions":
    """Return the options of a start with `flags` that are no part of its job. Raises UsageError."""
    # A dry run needs no module of a run.
    from pylaunch.runs.start import StartOptions  # noqa: PLC0415
    from pylaunch.runs.start_checks import at_start_checks  # noqa: PLC0415

    return StartOptions(
        checks=at_start_checks(skip=job.skipped_checks),
        secrets=secrets,
        tree=tree,
        waits=flags.queue,
        ends_leftovers=flags.clean,
    )


def understood(flags: StartFlags, tree: Tree | None) -> tuple[Program, StartFlags]:
    """Return the program that `flags` name, and `flags` with the options of another launcher's command line.

    Raises UsageError for a program that these flags cannot start.
    """
    words = flags.words
    if not words:
        raise UsageError("nothing to run", hint="pylaunch start -- train.py")
    if flags.module:
        words = ("-m", *words)
    if words == ("-m",):
        raise UsageError("-m: expected the name of a module", hint="pylaunch start -- -m package.module")
    named = flags.framework
    directory = source_directory(flags.workdir, tree)
    pasted = None if named == Framework.COMMAND.value else taken_apart(words)
    if pasted is not None and pasted.launcher:
        flags = _with_options(flags, pasted)
        framework = named if named != AUTO or pasted.framework is None else pasted.framework.value
        return _chosen(framework, pasted.words, directory), flags
    if program := program_after(words):
        flags = replace(flags, env=(*words[: -len(program)], *flags.env))
        words = program
    _refuse_no_program(words, directory)
    if pasted is not None and named == AUTO:
        _refuse_mpi(pasted.words, directory)
        found = choose(read_program(directory, list(pasted.words)))
        if found is None:
            return Program(words, Framework.COMMAND), flags
        flags, words = _with_options(flags, replace(pasted, env={})), pasted.words
    return _chosen(named, words, directory), flags


def _refuse_no_program(words: Argv, directory: str) -> None:
    """Raise UsageError for words that a shell, Slurm or Jupyter takes, and that no node has as a program."""
    first, here = words[0], Path(directory)
    if first in SHELL_WORDS:
        what, hint = "built into shells", pylaunch("start", "--", "bash", "-c", " ".join(words))
    elif first in ("sbatch", "salloc"):
        what, hint = "a command of Slurm", "pylaunch start --scheduler slurm --nodes 4 -- train.py; pylaunch help slurm"
    elif first.endswith(".ipynb"):
        what, hint = "a notebook", quoted(("jupyter", "nbconvert", "--to", "script", first))
    elif os.access(here / first, os.F_OK):  # exists raises for a name that is too long.
        return
    elif " " in first and "/" not in first.partition(" ")[0]:
        of_shell = pylaunch("start", "--", "bash", "-c", " ".join(words))
        line = f"pylaunch start -- {first} {quoted(words[1:])}".rstrip()
        what, hint = "one word, in quotes", of_shell if OF_SHELL & set(first) else line
    elif "." in first and os.access(here / f"{first.replace('.', '/')}.py", os.F_OK):
        what, hint = "a module", pylaunch("start", "--", "-m", *words)
    else:
        return
    raise UsageError(f"{first} is {what}, and no program", hint=hint)


def _chosen(named: str, words: Argv, directory: str) -> Program:
    is_script = words[0].endswith(".py") or words[0] == "-m"
    if named != AUTO:
        framework = Framework(named)
        if framework is not Framework.COMMAND and not is_script:
            raise UsageError(
                f"{framework.value} starts Python scripts, and {words[0]} does not end in .py",
                hint=f"pylaunch start --framework command -- {quoted(words)}",
            )
        return Program(words, framework)
    if not is_script:
        return Program(words, Framework.COMMAND)
    _refuse_mpi(words, directory)
    sources = read_program(directory, list(words))
    found = choose(sources)
    if found is None:
        return Program(words, Framework(DEFAULT), is_unread=not sources)
    if found.framework != DEFAULT:
        _report_choice(found.framework, found.because + ("" if found.path == sources[0].path else f" in {found.path}"))
    return Program(words, Framework(found.framework))


def _refuse_mpi(words: Argv, directory: str) -> None:
    """Raise UsageError for a script whose ranks only mpirun connects."""
    package = needs_mpi(read_program(directory, list(words))) if words else None
    if package is not None:
        raise UsageError(
            f"{_shown(words)} imports {package}, and pylaunch starts no MPI job: each rank would be alone in its world",
            hint="start it with mpirun, which connects its ranks",
        )


def _report_choice(framework: str, because: str) -> None:
    console.say(f"note: --framework {framework}, because of {because}; name another one to overrule this")


def _with_options(flags: StartFlags, pasted: Pasted) -> StartFlags:
    """Take over the options of `pasted` that `flags` leave at their defaults, and report them."""
    used = {name: text for name, text in pasted.options.items() if getattr(flags, name) == getattr(StartFlags, name)}
    taken: dict[str, Any] = {}
    for each in OPTIONS:
        if each.name in used:
            try:
                taken[each.name] = each.value(used[each.name])
            except ValueError as error:
                raise UsageError(f"{pasted.launcher} {each.typed} {used[each.name]}: {error}") from None
    env = tuple(f"{name}={value}" for name, value in pasted.env.items())
    if pasted.launcher:
        console.say(described_line(pasted, used))
        if "nodes" not in pasted.options and flags.nodes is None:
            console.say("note: the ranks start on every host: --nodes 1 for one machine")
    return replace(flags, **taken, env=(*env, *flags.env))


def _shown(words: Argv) -> str:
    return " ".join(words[:2]) if words[0] == "-m" else words[0]
