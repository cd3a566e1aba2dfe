"""The reference of Xid codes says what the table knows. To write it anew: UPDATE_GOLDEN=1 pytest tests/golden."""

from __future__ import annotations

import os
from pathlib import Path

from pylaunch.explain.xid import SOURCE, XIDS, XidKind

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "xid.md"

HEAD = f"""\
# NVIDIA's Xid codes

What `pylaunch check` (`gpu.xid`) knows of the errors that NVIDIA's driver writes into the kernel log.
Names and first actions are those of [NVIDIA's catalog]({SOURCE}). For 45, 48, 74, 144 to 150 and 154 it has a flow of
questions instead of an action, for 171 and 172 nothing: there the action is our choice. Kind and meaning, what a code
says to somebody whose training failed, are ours everywhere. The catalog has more; a code
that is not here is a warning.

- **damaged** fails: the GPU cannot be trusted until the action is done. Where `nvidia-smi` reports that no recovery
  action is needed any more, it is a warning, because the log keeps a line also after the GPU was reset; 79 stays a
  failure until the machine was restarted.
- **suspect** warns: the GPU works, and wants to be looked after.
- **program** is a note: most likely a fault of the program that ran, or the echo of another Xid.

The first error is the cause: look for the earliest line, and on the other GPUs of the host.

    pylaunch check -i cluster.ini
    sudo dmesg | grep -i xid

| code | name | kind | first action | what it means |
|---|---|---|---|---|
"""


def page() -> str:
    """The reference as it should be."""
    rows = (
        f"| {each.code} | {each.name} | {each.kind.value} | {each.action.value} | {each.meaning} |\n"
        for each in sorted(XIDS.values(), key=lambda xid: xid.code)
    )
    return HEAD + "".join(rows)


def test_the_reference_of_xids_says_what_the_table_knows() -> None:
    if os.environ.get("UPDATE_GOLDEN"):
        PAGE.write_text(page())
    assert PAGE.read_text() == page()


def test_every_kind_of_xid_is_explained() -> None:
    assert all(f"- **{kind.value}**" in HEAD for kind in XidKind)
