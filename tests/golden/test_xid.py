"""The reference of Xid codes has the rows of the table. To write it: UPDATE_GOLDEN=1 pytest tests/golden."""

from pathlib import Path

from pylaunch.verdict.causes.xid import SOURCE, XIDS, XidKind
from tests.golden.files import golden

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "xid.md"

HEAD = f"""\
# NVIDIA's Xid codes

NVIDIA's driver writes errors into the kernel log as Xid codes. This page lists the codes that `pylaunch check`
(`gpu.xid`) explains. Names and first actions are those of [NVIDIA's catalog]({SOURCE}). For 45, 48, 74, 144 to 150 and
154 the catalog has a decision tree instead of an action, and for 171 and 172 it has none: pylaunch chooses an action
there. pylaunch also assigns the kind and the meaning for training. The catalog has more codes; a code that is missing
here is a warning.

- **damaged** is a failure: do not use the GPU until the action is done. If `nvidia-smi` reports that no recovery action
  is needed, it is a warning, because the log keeps its lines after a reset; 79 stays a failure until the machine is
  restarted.
- **suspect** is a warning: the GPU works, but needs attention.
- **program** is a note: most likely a fault of the program, or a consequence of another Xid.

The first error is the cause: look for the earliest line in the log, also for the other GPUs of the host.

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


def test_the_reference_of_xids_has_the_rows_of_the_table() -> None:
    assert page() == golden(PAGE, page())


def test_every_kind_of_xid_is_explained() -> None:
    assert all(f"- **{kind.value}**" in HEAD for kind in XidKind)
