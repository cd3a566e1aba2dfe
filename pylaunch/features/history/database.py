"""Rows of attempts in `history.sqlite` beside the records, at most MOST; records that are still there fill it again."""

import contextlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from pathlib import Path

from pylaunch.base.dataclass import fields
from pylaunch.errors import UsageError
from pylaunch.features.history.summary import AttemptRow, row_of
from pylaunch.model.text.argv import quoted
from pylaunch.store import runs
from pylaunch.store.paths import state_directory

MOST = 20_000
"""Attempts that are kept, the newest."""

WAIT_S = 2.0
"""Time to wait for another process that writes."""

_COLUMNS = tuple(field.name for field in fields(AttemptRow))
_VALUES = attrgetter(*_COLUMNS)


def file() -> Path:
    """Return the path of the database."""
    return state_directory() / "history.sqlite"


def add(attempts: Iterable[str], complain: Callable[[str], None]) -> None:
    """Add these recorded attempts, as far as they have ended. Raises UsageError."""
    rows = []
    for attempt in attempts:
        try:
            row = row_of(runs.read(attempt))
        except UsageError as error:
            complain(error.message)
        else:
            rows += [] if row is None else [row]
    with _opened() as database:
        marks = ", ".join("?" * len(_COLUMNS))
        database.executemany(f"INSERT OR REPLACE INTO attempts VALUES ({marks})", map(_VALUES, rows))
        database.execute(
            "DELETE FROM attempts WHERE attempt NOT IN (SELECT attempt FROM attempts ORDER BY created DESC LIMIT ?)",
            (MOST,),
        )


def rows(since: float) -> list[AttemptRow]:
    """Return the attempts that began at `since` or later, the newest first. Raises UsageError."""
    with _opened() as database:
        chosen = database.execute("SELECT * FROM attempts WHERE created >= ? ORDER BY created DESC", (since,))
        return [AttemptRow(*values) for values in chosen]


def missing() -> list[str]:
    """Return the recorded attempts that the database does not have. Raises UsageError."""
    with _opened() as database:
        known = {attempt for (attempt,) in database.execute("SELECT attempt FROM attempts")}
    return [attempt for attempt in runs.ids() if attempt not in known]


def _known(database: sqlite3.Connection) -> set[str]:
    return {column[1] for column in database.execute("PRAGMA table_info(attempts)")}


@contextlib.contextmanager
def _opened() -> Iterator[sqlite3.Connection]:
    try:
        state_directory().mkdir(mode=0o700, parents=True, exist_ok=True)
        file().touch(mode=0o600)  # Before SQLite makes it for everyone to read.
        with contextlib.closing(sqlite3.connect(file(), timeout=WAIT_S)) as database, database:
            database.execute(
                f"CREATE TABLE IF NOT EXISTS attempts (attempt TEXT PRIMARY KEY, {', '.join(_COLUMNS[1:])})"
            )
            if not {*_COLUMNS} <= _known(database):  # A file of an earlier version.
                database.execute("BEGIN IMMEDIATE")  # Another process may add them at the same time.
                for name in sorted({*_COLUMNS} - _known(database), key=_COLUMNS.index):
                    database.execute(f"ALTER TABLE attempts ADD COLUMN {name} DEFAULT ''")
            yield database
    except (sqlite3.Error, OSError) as error:
        is_damaged = type(error) is sqlite3.DatabaseError  # Its subclasses: a full disk, no permission, a lock.
        damaged = f"{quoted(('rm', str(file())))}  # the records of the newest runs fill it again"
        hint = damaged if is_damaged else quoted(("df", "-h", str(state_directory())))
        raise UsageError(f"{file()}: the history cannot be used: {error}", hint=hint) from None
