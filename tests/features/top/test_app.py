"""The screen and its keys, by Textual's pilot."""

import asyncio
import re
import signal
import sys
import threading
import time
import tomllib
from collections.abc import Awaitable, Callable
from functools import partial

import pytest
from textual.coordinate import Coordinate
from textual.pilot import Pilot
from textual.widgets import Input, Static

from pylaunch.cli import main
from pylaunch.errors import ExitCode
from pylaunch.features.top.app import OutputScreen, RowTable, StopScreen, TopApp
from pylaunch.features.top.live_runs import FollowedRuns
from pylaunch.features.top.rows import LiveRun
from pylaunch.features.top.verb_output import MOST_CHARACTERS, VerbOutput, run_verb
from pylaunch.model.text.argv import Argv
from pylaunch.terminal import console
from pylaunch.terminal.invocation import Invocation
from tests.documented_commands import ROOT
from tests.features.top.samples import live_run, training, writes
from tests.waiting import wait_until

SMALL = (80, 24)


class Verbs:
    """Records the verbs that are run, each of which prints `prints`."""

    def __init__(self, prints: str = "") -> None:
        self.prints = prints
        self.words: list[Argv] = []
        self.may_end = threading.Event()
        self.may_end.set()

    def run(self, words: Argv) -> None:
        """Print."""
        self.words.append(words)
        console.data(self.prints)
        assert self.may_end.wait(60)


def on_screen(
    story: Callable[[Pilot[None]], Awaitable[None]],
    *runs: LiveRun,
    verbs: Verbs | None = None,
    size: tuple[int, int] = SMALL,
) -> TopApp:
    """Play `story` on a screen with these runs."""
    live = FollowedRuns(None)
    live.by_id |= {run.record.plan.run: run for run in runs}
    app = TopApp(live, (verbs or Verbs()).run)

    async def play() -> None:
        async with app.run_test(size=size) as pilot:
            await pilot.pause(0)
            await story(pilot)

    asyncio.run(play())
    return app


def lines(pilot: Pilot[None]) -> list[str]:
    """The lines of the terminal."""
    screen = pilot.app.screen
    return ["".join(segment.text for segment in strip) for strip in screen._compositor.render_strips()]


def text(pilot: Pilot[None]) -> str:
    """The same, in one."""
    return "\n".join(lines(pilot))


async def shows(pilot: Pilot[None], pattern: str) -> str:
    """Wait until `pattern` is on the screen, and return the screen."""
    until = time.monotonic() + 60
    while not re.search(pattern, shown := text(pilot), re.S):
        assert time.monotonic() < until, f"{pattern!r} is not in:\n{shown}"
        await pilot.pause(0.01)
    return shown


async def press(pilot: Pilot[None], *keys: str) -> None:
    """Press keys one after the other. Unlike Pilot.press, this does not wait until the processor is idle."""
    for key in keys:
        await pilot._wait_for_screen()
        pilot.app.simulate_key(key)
        await pilot.pause(0)
        await pilot.pause(0)


def test_80_columns_and_24_rows_show_runs_nodes_and_keys_and_a_resize_keeps_them() -> None:
    now = time.time()
    runs = [training(live_run(f"{number:08x}"), now - 0.6) for number in range(3)]

    async def story(pilot: Pilot[None]) -> None:
        await shows(pilot, r"rank 3 +\d+ s +120 .*q quit")
        shown = lines(pilot)
        assert (len(shown), {len(line) for line in shown}) == (24, {80})
        assert shown[0].startswith("pylaunch top: 3 live, 3 shown")
        assert "00000002 running gpu[01-02] 120/1000" in " ".join(text(pilot).split())
        assert all(key in shown[-1] for key in ("l logs", "s stacks", "r report", "x stop", "/ filter", "q quit"))
        await pilot.resize_terminal(150, 40)
        await shows(pilot, "LAST LINE")
        await pilot.resize_terminal(40, 10)
        await shows(pilot, "RUN.*NODE, RANK")

    on_screen(story, *runs)


def test_text_of_a_rank_is_no_markup() -> None:
    run = live_run()
    writes(run, 0, "[red]loss[/red] [link=file:///etc]x[/] \x1b[31m[@click=app.quit]y", time.time())

    async def story(pilot: Pilot[None]) -> None:
        assert "[red]loss[/red] [link=file:///etc]x[/] [@click=app.quit]y" in text(pilot)

    on_screen(story, run, size=(200, 24))


def test_output_of_a_verb_and_notes_are_no_markup() -> None:
    run = live_run()
    run.trouble = "[bold]not[/bold] \x1b[2Jreached"

    async def story(pilot: Pilot[None]) -> None:
        assert "no node can be asked: [bold]not[/bold] \\x1b[2Jreached" in text(pilot)
        await press(pilot, "s")
        await shows(pilot, r"\(ended\)")
        assert "[red]a[/red]  b" in text(pilot)

    on_screen(story, run, verbs=Verbs("[red]a[/red]\t\x1b[2Jb".replace("\t", "  ")))


def test_keys_run_the_verbs_for_the_run_or_for_the_rank_at_the_cursor() -> None:
    verbs = Verbs("line of a rank")

    async def story(pilot: Pilot[None]) -> None:
        for key in ("l", "s", "r", "enter"):
            await press(pilot, key)
            await shows(pilot, r"\(ended\)")
            assert "line of a rank" in text(pilot)
            await press(pilot, "escape")
        await press(pilot, "tab", "down", "down")
        for key in ("l", "s", "r"):
            await press(pilot, key)
            await shows(pilot, r"\(ended\)")
            await press(pilot, "q")
        await press(pilot, "up", "up", "s")
        await shows(pilot, r"\(ended\)")

    on_screen(story, live_run("7f3a9c01"), verbs=verbs)
    assert verbs.words == [
        ("logs", "7f3a9c01", "--tail", "10"),
        ("stacks", "7f3a9c01"),
        ("report", "7f3a9c01"),
        ("status", "7f3a9c01"),
        ("logs", "7f3a9c01", "--rank", "1", "--tail", "200"),
        ("stacks", "7f3a9c01", "--rank", "1"),
        ("report", "7f3a9c01"),
        ("stacks", "7f3a9c01", "--node", "gpu01"),
    ]


def test_only_y_stops_a_run() -> None:
    verbs = Verbs("clean")

    async def story(pilot: Pilot[None]) -> None:
        for no in ("n", "escape", "enter", "q", "ctrl+c", "x"):
            await press(pilot, "x")
            assert isinstance(pilot.app.screen, StopScreen)
            assert "Stop run 7f3a9c01 (4 ranks on gpu[01-02])?" in text(pilot)
            await press(pilot, no)
            await pilot.pause(0)
            assert verbs.words == []
        await press(pilot, "y")
        await shows(pilot, r"\(ended\)")

    on_screen(story, live_run("7f3a9c01"), verbs=verbs)
    assert verbs.words == [("stop", "7f3a9c01")]


def test_quitting_waits_for_a_stop_that_runs_and_not_if_it_is_typed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    verbs, signals = Verbs(), list[int]()
    monkeypatch.setattr(signal, "raise_signal", signals.append)
    verbs.may_end.clear()

    async def story(pilot: Pilot[None]) -> None:
        await press(pilot, "x", "y", "escape", "s")
        assert isinstance(pilot.app.screen, OutputScreen)
        assert "pylaunch stop 7f3a9c01 (running)" in text(pilot), "one verb at a time"
        await press(pilot, "escape", "q")
        assert pilot.app.is_running
        await press(pilot, "escape")
        await shows(pilot, "ends after the running verb; q again: at once")
        await press(pilot, "q")
        assert signals == [signal.SIGINT] * 2, "as typed twice: the process does not wait"
        verbs.may_end.set()

    app = on_screen(story, live_run("7f3a9c01"), verbs=verbs)
    assert verbs.words == [("stop", "7f3a9c01")]
    assert not app._is_busy


def test_rows_that_changed_out_of_view_are_up_to_date_when_they_come_into_view() -> None:
    run = training(live_run(nodes=16, ranks=8), time.time())

    async def story(pilot: Pilot[None]) -> None:
        table = pilot.app.query_one("#nodes", RowTable)
        assert table.row_count == 16 * 9
        for rank in (0, 127):
            writes(run, rank, f"news of rank {rank}", time.time())
        await shows(pilot, "news of rank 0")
        assert "news" not in str(table.get_cell_at(Coordinate(16 * 9 - 1, 3))), "it is drawn when it is in view"
        await press(pilot, "tab", "end")
        await shows(pilot, "rank 127 .*news of rank 127")

    on_screen(story, run, size=(120, 24))


def test_a_filter_by_node() -> None:
    runs = [live_run("11111111", 1), live_run("22222222", 3)]

    async def story(pilot: Pilot[None]) -> None:
        await press(pilot, "slash", *"gpu03")
        shown = await shows(pilot, "nodes gpu03")
        assert "11111111" not in shown
        assert "gpu01" not in shown.replace("gpu[01-03]", "")
        await press(pilot, "escape")
        assert not pilot.app.query_one("#filter", Input).has_focus
        await press(pilot, "slash", *["backspace"] * 5, "enter")
        await shows(pilot, "11111111")

    on_screen(story, *runs)


def test_the_cursor_stays_with_its_run_when_a_newer_one_appears() -> None:
    older, newer = live_run("11111111", 1), live_run("22222222", 3)

    async def story(pilot: Pilot[None]) -> None:
        app = pilot.app
        assert isinstance(app, TopApp)
        app._live.by_id["22222222"] = newer
        older.record = type(older.record)(older.record.plan, "agent", 1.0, (), None)
        await shows(pilot, "22222222.*11111111")
        assert app._selected() is older
        await press(pilot, "up")
        await shows(pilot, "rank 5")
        assert app._selected() is newer

    on_screen(story, older)


def test_without_runs_keys_do_nothing() -> None:
    verbs = Verbs()

    async def story(pilot: Pilot[None]) -> None:
        await press(pilot, "l", "s", "r", "x", "enter", "tab", "l")
        assert pilot.app.query_one("#title", Static).content == "pylaunch top: 0 live, 0 shown"
        await press(pilot, "ctrl+c")
        assert not pilot.app.is_running or pilot.app._exit

    on_screen(story, verbs=verbs)
    assert verbs.words == []


def test_without_textual_the_error_has_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "textual", None)
    assert main.run(["top"]) == ExitCode.USAGE
    printed = capsys.readouterr().err
    assert "error: top needs the package textual, which is not installed" in printed
    assert f"hint: {sys.executable} -m pip install 'textual>=8,<9'" in printed
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["optional-dependencies"]["top"] == ["textual>=8,<9"]


def test_a_verb_prints_its_output_and_its_error_to_the_screen(capsys: pytest.CaptureFixture[str]) -> None:
    verb = VerbOutput(("status", "7f3a9c01"), partial(run_verb, main.pylaunch, Invocation()))
    wait_until(lambda: not verb.is_running, "the verb ends")
    assert verb.lines()[0] == "error: no run 7f3a9c01 is recorded here"
    assert capsys.readouterr() == ("", "")


def test_much_output_is_cut_and_names_the_command_that_prints_all_of_it() -> None:
    verb = VerbOutput(("logs", "7f3a9c01"), lambda _: console.data("line\n" * MOST_CHARACTERS))
    wait_until(lambda: not verb.is_running, "the verb ends")
    assert verb.lines()[-1] == "… all of it: pylaunch logs 7f3a9c01"
