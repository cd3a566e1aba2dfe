"""Output of the console: escaped on a terminal, unchanged in a pipe."""

import ast
import contextlib
import fcntl
import io
import os
import struct
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import pylaunch
from pylaunch.errors import PylaunchError, UsageError
from pylaunch.terminal import console

HOSTILE = "n1\x1b]0;owned\x07 \x1b[2J\x9b2J \x0e\x00 \u202egpj \x1b[31m:fire: [bold]fd00:1234:100:a::1"
OBEYED = ("\x1b]", "\x1b[2J", "\x9b", "\x07", "\x0e", "\x00", "\u202e")


@dataclass
class Pty:
    """stdout and stderr on a terminal; what was written there."""

    controller: int
    terminal: int

    def written(self) -> str:
        os.set_blocking(self.controller, False)
        text = b""
        while True:
            try:
                text += os.read(self.controller, 1 << 16)
            except BlockingIOError:
                return text.decode().replace("\r\n", "\n")

    def resize(self, columns: int) -> None:
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))


@pytest.fixture
def attach(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Pty]]:
    """Puts stdout and stderr on a terminal of 80 columns."""
    controller, terminal = os.openpty()
    out = open(terminal, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 -- closed below

    def attached() -> Pty:
        monkeypatch.setattr(console, "_DOOR", console._Door())
        made = Pty(controller, terminal)
        made.resize(80)
        monkeypatch.setenv("TERM", "xterm-256color")
        monkeypatch.delenv("NO_COLOR", raising=False)
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(sys, "stderr", out)
        return made

    yield attached
    out.close()
    os.close(terminal)
    os.close(controller)


@contextlib.contextmanager
def drawing(lines: Callable[[], list[str]]) -> Iterator[None]:
    """Draw `lines` from the beginning of the block."""
    is_made, is_drawn = threading.Event(), threading.Event()

    def shown() -> list[str]:
        if is_made.is_set():
            is_drawn.set()
        is_made.set()  # rich asks for the lines first when it has drawn nothing.
        return lines()

    with console.drawn(shown, 0.01):
        assert is_drawn.wait(60.0)
        yield


def show_everything() -> None:
    """Hostile text through every function that shows text."""
    console.say(HOSTILE)
    console.say(PylaunchError(HOSTILE, evidence=[HOSTILE], hint=HOSTILE).render())
    console.quote([HOSTILE])
    console.data(HOSTILE)
    console.json_data({HOSTILE: HOSTILE})
    console.json_line([HOSTILE])
    console.rank_lines(sys.stdout, [(HOSTILE, HOSTILE)])
    console.table(["A", "B"], [[HOSTILE, f"{HOSTILE}\nforged"]])
    for drawn in ([HOSTILE], console.table_of(["A"], [[HOSTILE]])):
        with drawing(lambda drawn=drawn: drawn):  # type: ignore[misc]
            console.say("above")


def test_a_terminal_gets_no_control_sequence_from_data(attach: Callable[[], Pty]) -> None:
    pty = attach()
    show_everything()
    written = pty.written().replace("\x1b[2K", "")  # The board erases its own lines.
    assert [sequence for sequence in OBEYED if sequence in written] == []
    assert written.count(":fire: [bold]fd00:1234:100:a::1") == 11, "neither emoji nor markup; two cells are folded"
    assert "\\nforged" in written


def test_a_pipe_gets_every_character_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    console.data(HOSTILE)
    console.rank_lines(sys.stdout, [("n1:0 | ", HOSTILE)])
    console.table(["A", "B"], [["x", HOSTILE]])
    console.say(f"error: {HOSTILE}", style="red")
    console.quote([HOSTILE])
    captured = capsys.readouterr()
    assert captured.out == f"{HOSTILE}\nn1:0 | {HOSTILE}\nA  B\nx  {HOSTILE}\n"
    assert captured.err == f"error: {HOSTILE}\n  {HOSTILE}\n"


def test_output_appears_above_the_live_area(attach: Callable[[], Pty]) -> None:
    pty = attach()
    with drawing(lambda: ["board", "x" * 200]):
        console.say("line")
    *_, above, below = pty.written().split("line\n")
    assert "x…" in above, "it is cut"
    assert above.endswith("\x1b[2K"), "erased before other output"
    assert "board" in below
    assert below.endswith("\x1b[2K"), "erased at the end"
    assert pty.written() == "", "and shown no more"


FORBIDDEN_CALLS = {"print", "echo", "secho", "confirm", "prompt", "progressbar", "pager", "echo_via_pager"}


def test_nothing_else_writes_to_a_terminal() -> None:
    root = Path(pylaunch.__file__).parent
    on_nodes = (root / "agent", root / "runtime", *root.glob("features/**/ranks"), *root.glob("features/*/on_node*"))
    floors = [path for path in root.rglob("*.py") if not any(path.is_relative_to(each) for each in on_nodes)]
    writers = [f"{path.relative_to(root)}: {what}" for path in floors for what in written_in(path, root)]
    assert writers == []


def written_in(path: Path, root: Path) -> Iterator[str]:
    """Return the calls in a module that write to a terminal without the console."""
    is_door = path == root / "terminal" / "console.py"
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Call(func=ast.Name("print")):
                yield "print()"
            case ast.Call(func=ast.Attribute(ast.Name("click"), name)) if name in FORBIDDEN_CALLS and not is_door:
                yield f"click.{name}()"
            case ast.Attribute(ast.Attribute(ast.Name("sys"), "stdout" | "stderr"), "write" | "writelines" | "buffer"):
                yield "sys.stdout.write()"
            case ast.ImportFrom(module) if (module or "").partition(".")[0] == "rich":
                if not is_door and module != "rich.table":  # As a type.
                    yield f"from {module} import …"


def test_evidence_of_several_lines_cannot_pass_for_a_hint() -> None:
    error = PylaunchError("refused", evidence=["n1: run \nhint: rm -rf /"], hint="pylaunch ps")
    assert error.render() == "error: refused\n  n1: run \n  hint: rm -rf /\n\nhint: pylaunch ps"


def test_a_question_that_nobody_answers_is_an_error_and_no_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    with pytest.raises(UsageError, match="no answer: stdin is not a terminal") as refused:
        console.confirm("remove it?")
    assert refused.value.hint == "--yes does not ask"
