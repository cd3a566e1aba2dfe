"""`pylaunch explain`: the cause of a failure, from a run or from log files of any launcher."""

import re
import sys
from io import BufferedReader, FileIO
from pathlib import Path

import click

from pylaunch.errors import ExitCode, UsageError
from pylaunch.features.explain import view
from pylaunch.features.explain.work import STDIN, LogExplanation, explain_files, explain_run
from pylaunch.terminal import console, document, options
from pylaunch.terminal.flags.resolve_run import find
from pylaunch.transport.interrupts import signals

_ATTEMPT = re.compile(r"[0-9a-f]{1,8}\.\d{1,4}")
"""One attempt of a run, as `start` prints it."""

EXAMPLES = """\b
Examples:
  pylaunch explain
  pylaunch explain 7f3a --verbose
  pylaunch explain rank_*.log
  kubectl logs -l job=train --prefix --tail -1 | pylaunch explain -
"""


@click.command(epilog=EXAMPLES)
@click.argument("logs", nargs=-1, metavar="[RUN | LOGFILE... | -]")
@options.nodes_know
@click.option("-v", "--verbose", is_flag=True, help="What else was considered, and why it was rejected.")
@options.as_json
def command(logs: tuple[str, ...], *, inventory: Path | None, verbose: bool, as_json: bool) -> int:
    """Show why a run failed: the cause that its texts support, the evidence, and what to type next.

    RUN is an id, or the beginning of one; without it, the newest run. LOGFILE is a file or a
    directory of logs of any launcher (torchrun, srun, mpirun, deepspeed, accelerate, ray, kubectl), of one rank or of
    several, plain or compressed with gzip; - is stdin. Exits with 0 whatever the logs show.
    """
    explained = _explained(logs, inventory)
    if as_json:
        document.show(view.as_data(explained))
    else:
        view.show(explained, verbose=verbose)
    return ExitCode.DONE


def _explained(logs: tuple[str, ...], inventory: Path | None) -> LogExplanation:
    if not logs:
        return explain_run(find(None, inventory, newest=True), console.say, signals)
    if len(logs) == 1 and logs[0] != STDIN and not Path(logs[0]).exists():
        if "/" in logs[0] or ("." in logs[0] and _ATTEMPT.fullmatch(logs[0]) is None):
            raise UsageError(f"{logs[0]}: no such file", hint="pylaunch explain LOGFILE…; runs: pylaunch ps --all")
        return explain_run(find(logs[0], inventory), console.say, signals)
    stdin: BufferedReader | None = None
    if STDIN in logs:
        stdin = BufferedReader(FileIO(sys.stdin.fileno(), closefd=False))
    return explain_files([Path(each) for each in logs], stdin, console.say)
