"""Another verb of pylaunch, which runs in a thread of this process; its output is kept instead of printed."""

import contextlib
import io
import threading
import traceback
from collections.abc import Callable

import click

from pylaunch.base.dataclass import replace
from pylaunch.errors import PylaunchError
from pylaunch.model.text.argv import Argv, pylaunch
from pylaunch.model.text.sanitise import rank_output
from pylaunch.terminal import console, hints
from pylaunch.terminal.invocation import Invocation

MOST_CHARACTERS = 1 << 20


class BoundedOutput(io.StringIO):
    """Takes the place of stdout and stderr, and keeps MOST_CHARACTERS."""

    room = MOST_CHARACTERS

    def write(self, text: str, /) -> int:
        """Keep `text` as far as there is room."""
        kept = text[: self.room]
        self.room -= len(kept)
        return super().write(kept)


class VerbOutput:
    """A verb that runs, or has run. One at a time: standard streams belong to the process."""

    def __init__(self, words: Argv, run: Callable[[Argv], None]) -> None:
        """`run` runs the verb and prints its output, errors included."""
        self.command_line = pylaunch(*words)
        self._run = run
        self._output = BoundedOutput()
        self._thread = threading.Thread(target=self._work, args=(words,), name=self.command_line)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """The verb has not ended."""
        return self._thread.is_alive()

    @property
    def size(self) -> int:
        """Characters of output so far."""
        return MOST_CHARACTERS - self._output.room

    def lines(self) -> list[str]:
        """Return the output so far, safe to draw."""
        text = self._output.getvalue()
        shown = [rank_output(line, colours=False).expandtabs() for line in text.split("\n")]
        return shown if len(text) < MOST_CHARACTERS else [*shown, f"… all of it: {self.command_line}"]

    def _work(self, words: Argv) -> None:
        with contextlib.redirect_stdout(self._output), contextlib.redirect_stderr(self._output):
            self._run(words)


def run_verb(command_line: click.Command, invocation: Invocation, words: Argv) -> None:
    """Run a verb of `command_line`, which is pylaunch, as if it was typed with the inventory of `invocation`."""
    try:
        command_line.main([*words], prog_name="pylaunch", standalone_mode=False, obj=replace(invocation))
    except PylaunchError as error:
        error.hint = error.hint and hints.completed(error.hint, invocation)
        console.say(error.render())
    except Exception:  # noqa: BLE001 -- the boundary of a thread: the screen shows what happened
        console.say(traceback.format_exc())
