"""Commands in hints, as they work when they are pasted.

Lower floors write `pylaunch VERB …` with `model.argv.pylaunch`, which quotes for any shell; they do not know how this
command line named its inventory. Where hints are shown, each command that reads one gets it.
"""

from __future__ import annotations

import re

from pylaunch.cli import console
from pylaunch.cli.invocation import Invocation, current
from pylaunch.model.argv import quoted

WITH_INVENTORY = (
    "provision", "verify", "drift", "attest", "check", "start", "gpus", "clean", "trust", "env lock", "env show",
)  # fmt: skip
"""Verbs that act on the hosts of an inventory. Those that take a RUN find its hosts in its record."""

_COMMAND = re.compile(rf"\bpylaunch (?:{'|'.join(WITH_INVENTORY)})\b(?!-)")
_END = re.compile(r"\bpylaunch |[;\n]|\s-- ")
_NAMED = re.compile(r"\s(?:-i|-H|--inventory|--hosts)\b")


def completed(text: str, invocation: Invocation | None = None) -> str:
    """`text` with the inventory of this command line in every command of pylaunch's that reads one and names none."""
    words = quoted((invocation or current()).inventory)
    if not words:
        return text

    def with_inventory(found: re.Match[str]) -> str:
        rest = text[found.end() :]
        end = _END.search(rest)
        named = _NAMED.search(rest[: end.start()] if end is not None else rest)
        return found[0] if named else f"{found[0]} {words}"

    return _COMMAND.sub(with_inventory, text)


def say(*lines: str) -> None:
    """What to type next, below what was said."""
    console.say("\nhint: " + completed("\n      ".join(lines)))
