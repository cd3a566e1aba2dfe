"""The `pylaunch` command: the table of verbs, and the only place that prints errors and picks their exit codes."""

import errno
import os
import platform
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

import click

from pylaunch import __version__, features
from pylaunch.base.dataclass import replace
from pylaunch.errors import ExitCode, PylaunchError, UsageError
from pylaunch.model.hostset import fold
from pylaunch.model.pasted import LAUNCHERS
from pylaunch.model.text.argv import quoted
from pylaunch.terminal import console, document, hints
from pylaunch.terminal.doors import Names, Verb, VerbGroup
from pylaunch.terminal.options import Invocation, current
from pylaunch.transport import interrupts, process


def _verb(group: VerbGroup, name: str, text: str, names: Names = Names.NOTHING, *subcommands: str) -> tuple[str, Verb]:
    module = f"pylaunch.cli.commands.{group.name.lower()}.{name}"
    return name, Verb(module, text, group=group, names=names, subcommands=subcommands)


_CORE = dict((
    _verb(VerbGroup.PREPARE, "trust", "Show the host keys of the hosts, and accept them on request", Names.HOSTS),
    _verb(VerbGroup.PREPARE, "check", "Ask every host whether a run would work, and if not, why", Names.HOSTS),
    _verb(VerbGroup.RUN, "start", "Start a job on all nodes at the same moment, and follow it", Names.HOSTS),
    _verb(VerbGroup.RUN, "rerun", "Start the job of an earlier run again, under a new id"),
    _verb(VerbGroup.RUN, "attach", "Follow a live run again", Names.RUN),
    _verb(VerbGroup.RUN, "stop", "Stop a run and prove that nothing of it is left", Names.RUN),
    _verb(VerbGroup.WATCH, "ps", "List runs, live and past", Names.RUN),
    _verb(VerbGroup.WATCH, "status", "Show one run: nodes, ranks, how far it is or how it ended", Names.RUN),
    _verb(VerbGroup.WATCH, "logs", "Show the output of the ranks of a run", Names.RUN),
    _verb(VerbGroup.MAINTAIN, "clean", "Remove processes and files of runs that are over", Names.HOSTS),
))  # fmt: skip
"""Verbs of the core: each is the module of the same name in its group of `cli/commands/`."""


def _all_verbs() -> dict[str, Verb]:
    """Return the verbs of the core and of the features with their groups, in the order of the help."""
    found = dict(_CORE)
    order, waiting = list(found), features.verbs()
    while waiting:
        name = next((each for each, verb in waiting.items() if verb.after in order), next(iter(waiting)))
        verb = waiting.pop(name)
        before = found.get(verb.after)
        found[name] = replace(verb, group=verb.group or (before and before.group) or VerbGroup.MAINTAIN)
        last = 0 if verb.is_first else len(order)
        order.insert(order.index(verb.after) + 1 if before is not None else last, name)
    return {name: found[name] for group in VerbGroup for name in order if found[name].group is group}


VERBS = _all_verbs()
"""The module of a verb is imported when the verb is used."""

ABOUT = "From bare Linux machines to a training job whose ranks all started together."
_EXAMPLES = (
    "pylaunch start -H gpu01,gpu02 --sync . -- train.py   needs only SSH",
    "pylaunch check -i cluster.ini -- train.py            would it run? why not?",
    "pylaunch status 7f3a --watch                         steps and last lines, live",
    "pylaunch explain 7f3a                                why it failed",
)
"""Command lines of the core in the help, after those of features; in 76 columns."""

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)


class Verbs(click.Group):
    """The verbs of `VERBS`; only the module of the verb that is used is loaded."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs in the order of the table."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of a verb, None for an unknown one. Each module names its command `command`."""
        if cmd_name not in VERBS:
            return None
        command: click.Command = features.imported(VERBS[cmd_name].module).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Keep the verb: errors of its options are reported with it. Raises UsageError for an unknown one."""
        if not (ctx.resilient_parsing or args[0].startswith("-") or args[0] in VERBS):
            if any(" ".join(args).startswith(f"{launcher} ") for launcher in LAUNCHERS):
                raise UsageError(f"no such command: {args[0]}", hint=quoted(("pylaunch", "start", "--", *args)))
            raise click.exceptions.NoSuchCommand(args[0], possibilities=VERBS, ctx=ctx)
        found = super().resolve_command(ctx, args)
        current().verb = found[0] or ""
        return found

    def invoke(self, ctx: click.Context) -> object:
        """Run the verb. Exit with 0 when the reader of stdout is gone (`pylaunch logs | head`), where click exits with
        1."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            console.silence(sys.stdout)
            return ExitCode.DONE

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the verbs by group, without importing them."""
        width = max(map(len, VERBS))
        for group in VerbGroup:
            with formatter.section(group.value):
                formatter.write_dl(
                    [(f"{name:{width}}", each.help) for name, each in VERBS.items() if each.group is group]
                )


def _with_hyphens(word: str) -> str:
    """Return an option as it is called here: torchrun takes --nproc_per_node, too."""
    return word.replace("_", "-")


@click.group(
    cls=Verbs,
    help=ABOUT,
    epilog="\b\n" + "\n".join((*(each.example for each in VERBS.values() if each.example), *_EXAMPLES)),
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 120,
        "token_normalize_func": _with_hyphens,
    },
)
@click.version_option(__version__, message=f"pylaunch %(version)s, Python {platform.python_version()}")
def pylaunch() -> None:
    """Run a verb."""


def main(command: click.Command = pylaunch, name: str = "pylaunch") -> None:
    """Entry point: run the command line of `command` and exit with one of the documented codes."""
    _open_closed_streams()
    interrupts.install(
        "interrupted twice: ended at once, without waiting for anything", ExitCode.INTERRUPTED, process.end_running
    )
    if console.is_terminal(sys.stderr):
        # 4 ms that nobody waits for without a terminal.
        from pylaunch.transport.connections import AWAITED  # noqa: PLC0415

        AWAITED.report_to(_say_silent)
    code = run(sys.argv[1:], command, name)
    interrupts.leaving()
    sys.exit(code)


def _say_silent(hosts: Sequence[str], seconds: float) -> None:
    console.say(f"waiting for {fold(hosts)}: no answer yet, {seconds:.0f} s more at most")


def _open_closed_streams() -> None:
    """Open /dev/null for each standard stream that the caller has closed, as some daemons do.

    Else the next file takes its number, and output of a child process is written into it.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            # The lowest free number is `number`, because those below it are open.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115 -- open until the end


def run(arguments: list[str], command: click.Command = pylaunch, name: str = "pylaunch") -> int:
    """Run one command line and return its exit code. Prints errors, as text and as JSON."""
    invocation = Invocation(verbs=VERBS)
    code, error = _ended(arguments, invocation, command, name)
    if error is not None:
        error.hint = error.hint and hints.completed(error.hint, invocation)
        console.say(error.render())
    try:
        document.close(invocation, code, error or invocation.printed_error)
    except BrokenPipeError:
        console.silence(sys.stdout)
    except OSError as lost:
        if lost.errno not in _NO_ROOM:
            raise
        console.silence(sys.stdout)
        console.say(UsageError(f"stdout: {lost.strerror}", hint="the document of --json is not whole").render())
        return code or ExitCode.USAGE
    return code


def _ended(
    arguments: list[str], invocation: Invocation, command: click.Command, name: str
) -> tuple[int, PylaunchError | None]:
    """Return the exit code, and the error that led to it."""
    try:
        answer = command.main(arguments, prog_name=name, standalone_mode=False, obj=invocation)
    except PylaunchError as error:
        return error.exit_code, error
    except click.exceptions.Abort:
        return ExitCode.INTERRUPTED, _InterruptedError("interrupted")
    except KeyboardInterrupt as interrupt:
        return ExitCode.INTERRUPTED, _InterruptedError(str(interrupt) or "interrupted")
    except click.exceptions.NoArgsIsHelpError as help_page:
        console.say(help_page.format_message())
        return ExitCode.USAGE, None
    except click.ClickException as error:
        # Options are not read when one of them cannot be.
        before_the_job = arguments[: arguments.index("--")] if "--" in arguments else arguments
        invocation.as_json = invocation.as_json or "--json" in before_the_job
        context = getattr(error, "ctx", None)
        asked = context.command_path if context is not None else name
        return ExitCode.USAGE, UsageError(error.format_message(), hint=f"{asked} --help")
    except OSError as error:
        if error.errno == errno.ENOENT and not _has_working_directory():
            return ExitCode.USAGE, UsageError("the working directory was removed", hint="cd to one that exists")
        if error.errno not in _NO_ROOM:
            return ExitCode.BUG, _bug()
        where = f"{error.filename}: " if error.filename else ""
        hint = "make room there, or name another place: TMPDIR=DIR, XDG_STATE_HOME=DIR"
        return ExitCode.USAGE, UsageError(f"{where}{error.strerror}", hint=hint)
    except Exception:  # noqa: BLE001 -- the one boundary: whatever arrives here is our bug
        return ExitCode.BUG, _bug()
    return answer if isinstance(answer, int) else ExitCode.DONE, None


def _has_working_directory() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return False
    return True


class _InterruptedError(PylaunchError):
    """The user interrupted the command."""

    exit_code = ExitCode.INTERRUPTED

    def render(self) -> str:
        """Return the message without "error:"."""
        return self.message


def _bug() -> PylaunchError:
    console.say(traceback.format_exc())
    return PylaunchError(f"this is a bug in pylaunch {__version__}; the trace is above")
