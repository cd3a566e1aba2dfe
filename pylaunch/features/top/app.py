"""The screen of `pylaunch top` and its keys. It draws what `live_runs` knows, as often as nodes report."""

import signal
from collections.abc import Callable, Mapping
from typing import ClassVar

from rich.cells import cell_len
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.coordinate import Coordinate
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Input, Log, Static

from pylaunch.features.top import rows
from pylaunch.features.top.live_runs import FollowedRuns
from pylaunch.features.top.verb_output import VerbOutput
from pylaunch.model.hostset import fold
from pylaunch.model.plan import base_of
from pylaunch.model.text.argv import Argv
from pylaunch.model.text.sanitise import visible_line
from pylaunch.runs import steady_clock

DRAW_S, OUTPUT_S = 2.0, 0.25
"""Intervals at which the tables, and the output of a verb, are drawn."""

MOST_NOTES = 3
TAIL, TAIL_OF_RANK = "10", "200"
"""Lines of each log that are shown."""


class RowTable(DataTable[Text]):
    """A table whose cursor stays with its row when rows change their places."""

    BINDINGS: ClassVar[list[BindingType]] = [("enter", "select_cursor", "details"), ("tab", "app.focus_next", "table")]

    def __init__(self, columns: Mapping[str, int | None], *, id: str) -> None:
        super().__init__(cursor_type="row", id=id)
        self._columns = columns
        self._shown: list[rows.TableRow] = []
        self._drawn: list[rows.TableRow] = []
        """The rows as the table has them: older than `_shown` where they are out of view."""

    def on_mount(self) -> None:
        """Add the columns."""
        for head, width in self._columns.items():
            self.add_column(head, width=width)

    @property
    def chosen(self) -> rows.TableRow | None:
        """The row at the cursor; None without rows."""
        return self._shown[min(self.cursor_row, len(self._shown) - 1)] if self._shown else None

    def put(self, wanted: list[rows.TableRow]) -> None:
        """Show the rows `wanted`: cells in view that changed where the same rows are shown."""
        before, self_key = self._shown, self.chosen.key if self.chosen is not None else None
        keys = [row.key for row in wanted]
        self._shown = wanted
        if keys != [row.key for row in before]:
            self._drawn = list(wanted)
            self.clear()
            for row in wanted:
                self.add_row(*(_text(row, cell) for cell in row.cells))
            self.move_cursor(row=keys.index(self_key) if self_key in keys else 0)
            return
        self._draw_view()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Draw the rows that come into view."""
        super().watch_scroll_y(old_value, new_value)
        self._draw_view()

    def _draw_view(self) -> None:
        is_measured = [width is None for width in self._columns.values()]
        first = int(self.scroll_y)
        for at in range(first, min(first + self.size.height + 1, len(self._shown))):
            row, old = self._shown[at], self._drawn[at]
            self._drawn[at] = row
            for column, (cell, before) in enumerate(zip(row.cells, old.cells, strict=True)):
                if cell != before or row.is_alert != old.is_alert:
                    # Another width lays out the whole screen.
                    has_width = is_measured[column] and cell_len(cell) != cell_len(before)
                    self.update_cell_at(Coordinate(at, column), _text(row, cell), update_width=has_width)


def _text(row: rows.TableRow, cell: str) -> Text:
    """Return a cell as it is: a string would be markup."""
    return Text(cell, style="bold yellow" if row.is_alert else "", no_wrap=True)


class OutputScreen(ModalScreen[None]):
    """Output of a verb, as it arrives."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape,q,enter,ctrl+c", "dismiss", "back")]

    def __init__(self, verb: VerbOutput) -> None:
        super().__init__()
        self._verb = verb
        self._shown: int | None = None

    def compose(self) -> ComposeResult:
        """Lay out the screen."""
        yield Static(id="command", markup=False)
        yield Log()
        yield Footer()

    def on_mount(self) -> None:
        """Show what the verb has printed, now and then."""
        self._show()
        self.set_interval(OUTPUT_S, self._show)

    def _show(self) -> None:
        is_running, size, log = self._verb.is_running, self._verb.size, self.query_one(Log)
        self.query_one(Static).update(f"{self._verb.command_line} ({'running' if is_running else 'ended'})")
        if size != self._shown:
            self._shown, lines = size, self._verb.lines()
            is_log = self._verb.command_line.startswith("pylaunch logs ")
            log.clear().write_lines(lines, scroll_end=is_running or is_log).focus()


class StopScreen(ModalScreen[bool]):
    """Question whether a run is to be stopped. Only y means yes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("y", "dismiss(True)", "stop it"),
        ("n,escape,enter,q,ctrl+c", "dismiss(False)", "do not"),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        """Lay out the screen."""
        yield Static(self._question, markup=False)
        yield Footer()


class TopApp(App[None]):
    """Table of runs above that of the nodes and ranks of the selected run."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    RowTable { scrollbar-size-horizontal: 0; }
    #title, #command { height: 1; text-style: bold; }
    #runs { height: auto; max-height: 40%; }
    #notes { height: auto; max-height: 25%; color: $text-warning; }
    #nodes { height: 1fr; }
    #filter { display: none; }
    #filter.shown { display: block; }
    StopScreen, OutputScreen { background: $background; }
    StopScreen Static { padding: 1 2; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("l", "verb('logs')", "logs"),
        ("s", "verb('stacks')", "stacks"),
        ("r", "verb('report')", "report"),
        ("x", "stop", "stop"),
        Binding("slash", "filter", "filter", key_display="/"),
        Binding("escape", "runs", show=False),
        ("q,ctrl+c", "quit", "quit"),
    ]

    def __init__(self, live: FollowedRuns, run_verb: Callable[[Argv], None]) -> None:
        super().__init__()
        self._live, self._run_verb = live, run_verb
        self._verb: VerbOutput | None = None
        self._wanted: tuple[str, ...] = ()
        self._is_ending = False
        self._run_table, self._node_table = (
            RowTable(rows.RUN_COLUMNS, id="runs"),
            RowTable(rows.NODE_COLUMNS, id="nodes"),
        )
        self._heading, self._note_lines = Static(id="title", markup=False), Static(id="notes", markup=False)
        self._node_filter = Input(id="filter", placeholder="gpu03 or gpu[01-04]; empty: all nodes", compact=True)

    def compose(self) -> ComposeResult:
        """Lay out the screen."""
        yield from (self._heading, self._run_table, self._note_lines, self._node_table, self._node_filter, Footer())

    def on_mount(self) -> None:
        """Draw at intervals."""
        self._draw()
        self.set_interval(DRAW_S, self._draw)

    def _draw(self) -> None:
        if self._is_ending and not self._is_busy:
            self.exit()
        now, words = steady_clock.now(), ",".join(self._wanted)
        with self._live.lock:
            above = rows.run_rows(self._live.by_id.values(), self._wanted, now)
            self._run_table.put(above)
            run = self._selected()
            below = [] if run is None else rows.node_rows(run, self._wanted, now)
            notes = [*([] if run is None else run.notes(now)), *filter(None, [visible_line(self._live.notice)])]
            live = sum(each.record.outcome is None for each in self._live.by_id.values())
        self._node_table.put(below)
        title = f"pylaunch top: {live} live, {len(above)} shown" + (f", nodes {visible_line(words)}" if words else "")
        title += ": ends after the running verb; q again: at once" if self._is_ending else ""
        if len(notes) > MOST_NOTES:
            notes[MOST_NOTES - 1 :] = [f"and {len(notes) - MOST_NOTES + 1} more: Enter"]
        for static, words in ((self._heading, title), (self._note_lines, "\n".join(notes))):
            if static.content != words:  # An update lays out the whole screen.
                static.update(words)

    def _selected(self) -> rows.LiveRun | None:
        row = self._run_table.chosen
        return None if row is None else self._live.by_id.get(row.key[1])

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        """Show the nodes of the run that is selected now."""
        if event.data_table is self._run_table:
            self._draw()

    def on_data_table_row_selected(self) -> None:
        """Show the status of the selected run."""
        self.action_verb("status")

    def action_verb(self, verb: str) -> None:
        """Run `verb` for the selected run, or where it takes them for the node or rank at the cursor."""
        run, row = self._selected(), self._node_table.chosen
        place: tuple[str, ...] = ()
        if verb in ("logs", "stacks") and self._node_table.has_focus and row is not None:
            place = (f"--{row.key[0]}", row.key[1])
        if verb == "logs":
            place = (*place, "--tail", TAIL_OF_RANK if "--rank" in place else TAIL)
        if run is not None:
            self._show((verb, base_of(run.record.plan.run), *place))

    def action_stop(self) -> None:
        """Stop the selected run after a confirmation."""
        run = self._selected()
        if run is None:
            return
        plan, base = run.record.plan, base_of(run.record.plan.run)
        question = f"Stop run {base} ({plan.world_size} ranks on {fold(node.host.name for node in plan.nodes)})?"
        if (part := plan.job.part) is not None:
            question += f" It is {part.name} of job {part.job_name}; for all of the job: pylaunch stop {part.job}"

        def answered(is_yes: bool | None) -> None:
            if is_yes:
                self._show(("stop", base))

        self.push_screen(StopScreen(visible_line(question)), answered)

    def _show(self, words: Argv) -> None:
        """Run a verb and show its output. While another one runs, show that one."""
        if self._verb is None or not self._is_busy:
            self._verb = VerbOutput(words, self._run_verb)
        self.push_screen(OutputScreen(self._verb))

    def action_filter(self) -> None:
        """Ask for nodes."""
        self._node_filter.add_class("shown").focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show what the words so far leave."""
        self._wanted = rows.wanted_nodes(event.value)
        self._draw()

    def on_input_submitted(self) -> None:
        """Return to the runs."""
        self.action_runs()

    def action_runs(self) -> None:
        """Return to the runs; the filter stays."""
        self._node_filter.remove_class("shown")
        self._run_table.focus()

    async def action_quit(self) -> None:
        """End, but not before a verb that runs: a stop proves first that nothing is left. Again: end at once."""
        if self._is_ending and self._is_busy:
            for _ in range(2):  # After the second, `transport/interrupts` ends a process that hangs.
                signal.raise_signal(signal.SIGINT)
            return
        self._is_ending = True
        if self._verb is not None and self._is_busy:
            self.push_screen(OutputScreen(self._verb))
        self._draw()

    def interrupted(self, _: str) -> None:
        """End as `action_quit` does, at the next drawing; a handler of signals calls it."""
        self._is_ending = True

    @property
    def _is_busy(self) -> bool:
        return self._verb is not None and self._verb.is_running
