"""Output on a terminal: equal lines once, a board that is gone at the end, and no line too wide."""

import fcntl
import os
import pty
import re
import struct
import termios
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.lab import Lab
from pylaunch.errors import ExitCode
from pylaunch.model.hostset import expand
from tests.lab.controller import Gate, must_be_clean, starting

SCRIPT = "echo loading; sleep 1; echo step $RANK; {}; echo bad >&2"
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


COMMAND = ("--workdir", "/tmp", "--framework", "command", "--nproc-per-node", "2")
CTRL_C = b"\x03"


def on_terminal(lab: Lab, columns: int, *arguments: str, until: str, then: Callable[[], None] | None = None) -> str:
    """Everything that `pylaunch` writes to a terminal of this width.

    When a line matches `until`, `then` is called; without it, Ctrl-C is pressed.
    """
    command = lab.command(*arguments)
    child, terminal = pty.fork()
    if child == 0:
        try:
            fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
            os.execvpe(command[0], command, {**os.environ, **lab.environment, "TERM": "xterm-256color"})
        finally:
            os._exit(127)
    written, has_matched = b"", False
    while True:
        try:
            chunk = os.read(terminal, 1 << 16)
        except OSError:  # EIO: the last one that had the terminal open is gone.
            break
        written += chunk
        if not has_matched and re.search(until, written.decode(errors="replace")):
            has_matched = True
            if then is None:
                os.write(terminal, CTRL_C)
            else:
                then()
    os.waitpid(child, 0)
    os.close(terminal)
    return written.decode()


def left_on_screen(written: str) -> list[str]:
    """The lines that are there at the end."""
    lines, row = [""], 0
    for piece in re.split(r"(\x1b\[[0-9;?]*[A-Za-z]|\r|\n)", written):
        if piece == "\n":
            row += 1
            if row == len(lines):
                lines.append("")
        elif piece == "\x1b[1A":
            row = max(0, row - 1)
        elif piece == "\x1b[2K":
            lines[row] = ""
        elif piece != "\r" and not CONTROL.fullmatch(piece):
            lines[row] += piece
    while lines[-1] == "":
        lines.pop()
    return [line.rstrip() for line in lines]


def ranks_in(prefix: str) -> tuple[str, ...]:
    """The ranks in "n1:0" or "[0-2,5]"."""
    return expand(prefix.rpartition(":")[2])


@pytest.mark.parametrize("columns", [80, 200])
def test_a_run_on_a_terminal(lab: Lab, columns: int, gate: Gate) -> None:
    start = ("start", "-i", str(lab.inventory), *COMMAND, "--", "sh", "-c", SCRIPT.format(gate.wait))
    written = on_terminal(lab, columns, *start, until=r"6 of 6 ranks on[\s\S]*  n2  cpu +\d+%  memory ", then=gate.open)
    screen = left_on_screen(written)
    assert re.search(r"run \w+ running for \d+ s: 6 of 6 ranks on n\[1-3\]", written)
    assert re.search(r"  n2  cpu +\d+%  memory ", written)
    equal = [line.partition(" ")[0] for line in screen if line.endswith(("| loading", "| bad"))]
    assert any(who.startswith("[") for who in equal), "equal lines of ranks are printed once"
    assert sum(len(ranks_in(who)) for who in equal) == 12
    assert sum("| step" in line for line in screen) == 6
    assert not any("running for" in line or "  cpu " in line for line in screen)
    assert screen[-1] == "n[1-3]: clean (no process, port or device lease of the run is left)"
    drawn = [CONTROL.sub("", line) for line in re.split(r"\r|\n|\x1b\[2K", written)]
    board = [line for line in drawn if "ranks on n[1-3]" in line or "  cpu " in line]
    assert max(map(len, board)) <= columns
    must_be_clean(lab)


def test_a_run_is_watched_on_a_terminal_until_ctrl_c(lab: Lab, tmp_path: Path, gate: Gate) -> None:
    script = f"python3 -c 'from pylaunch import runtime; runtime.step(7)'; {gate.wait}"
    with starting(lab, tmp_path, *COMMAND, "--", "sh", "-c", script) as started:
        started.says("started in")
        whole = r"  step 7: all ranks, the last \d+ s ago[\s\S]*  n3  cpu +\d+%  memory "
        written = on_terminal(lab, 80, "status", "--watch", started.run, until=whole)
        assert re.search(r"run \w+ running for \d+ s: 6 of 6 ranks on n\[1-3\]", written)
        assert re.search(whole, written)
        screen = left_on_screen(written)
        assert re.fullmatch(r"(\^C)?run \w+ continues", screen[-1]), screen
        assert not any("running for" in line or "  cpu " in line for line in screen)
        gate.open()
        assert started.ends() == ExitCode.DONE
    must_be_clean(lab)
