"""Pages of `pylaunch help`."""

from __future__ import annotations

from pylaunch.cli.commands.help import pages, title


def test_every_page_has_a_title_of_words() -> None:
    without = [topic for topic, page in pages().items() if not title(page)[:1].isalpha()]
    assert without == []
