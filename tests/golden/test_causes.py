"""The reference of causes has the rows of the table. To write it: UPDATE_GOLDEN=1 pytest tests/golden."""

from pathlib import Path

from pylaunch.model.diagnosis.cause import Certainty
from pylaunch.store.signatures import signatures
from pylaunch.verdict.causes.cause_kinds import KINDS
from tests.golden.files import golden

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "causes.md"

HEAD = """\
# Causes of a failure

When a run fails, pylaunch ranks its causes. The end of `pylaunch start` and `pylaunch status RUN` show the first
one with its evidence, `pylaunch status RUN --verbose` also shows observations that were rejected, with the reason,
and facts that could not be read.

    pylaunch status RUN --verbose
    pylaunch status RUN --json        # outcome.causes, outcome.rejected

- **certain**: the evidence allows no other cause, and the fate of every rank is known.
- **likely**: a rank failed on its own or a fact of a host fits, and other explanations are weaker.
- **possible**: it fits, and so may others. A fact of a host that is only possible names nobody.

A rank that lost its connection to another one, or waited for it in vain, is a victim and never named. Times of two
hosts that are closer than the uncertainty of their clocks have no order. A fact that is later than the first
failure is a consequence.

## Evidence that nodes collect

When a failure stops a run, the agent on each node collects within half a second: kernel messages since the
preparation (/dev/kmsg; not readable in most containers, and without CAP_SYSLOG where `kernel.dmesg_restrict` is
1), TCP connections of its ranks that make no progress, increases of the error counters of network interfaces and
InfiniBand ports, memory events, pressure, and steps of the node's clock. After a rank lost a connection or waited in
vain, the agents also try to connect to each other again.

## Kinds

`start`, `status`, `report` and [`explain`](../guides/explain.md) print the same identifier for the same cause: its
kind, and its class where the text of a rank or of a log is recognised, such as `storage/storage-full`. A class has its
own question, checks and repairs on its page.

| kind | what happened | question that settles it | next command | classes |
|---|---|---|---|---|
"""


def page() -> str:
    """The reference as it should be."""
    rows = (
        f"| `{each.id}` | {each.meaning} | {each.question} | {f'`{_cell(each.hint)}`' if each.hint else ''} "
        f"| {_classes(each.id)} |\n"
        for each in KINDS.values()
    )
    return HEAD + "".join(rows).replace("|  |", "| |").replace("|  |", "| |")


def _classes(kind: str) -> str:
    found = (each for each in signatures().causes.values() if each.kind == kind)
    return ", ".join(f"[{each.id}](errors-{each.page}.md#{each.id})" for each in found)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def test_the_reference_of_causes_has_the_rows_of_the_table() -> None:
    assert page() == golden(PAGE, page())


def test_every_confidence_is_explained() -> None:
    assert all(f"- **{confidence.value}**" in HEAD for confidence in Certainty)
