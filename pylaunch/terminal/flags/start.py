"""The options of a start, each declared once, the variables that they name, and the job that they describe."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

from pylaunch.base.dataclass import dataclass, fields, replace
from pylaunch.errors import UsageError
from pylaunch.model.job import EVERY, VARIABLE, Framework, JobSpec, OnHang
from pylaunch.model.secret import Secrets, sounds_secret
from pylaunch.model.text.argv import Argv
from pylaunch.runs.sync.tree import Tree
from pylaunch.terminal import options
from pylaunch.terminal.flags import sync
from pylaunch.terminal.options import Group, InJobFile, Option, seconds, whole

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
