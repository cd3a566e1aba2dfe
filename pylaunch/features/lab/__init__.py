"""A real cluster on one Linux machine (`lab`), and faults in runs of it (`drill`)."""

from __future__ import annotations

from pylaunch.terminal.doors import Verb

VERBS = {
    "drill": Verb(
        "pylaunch.features.lab.drill.command",
        "Inject faults into runs of a lab, and score what pylaunch says about each",
        after="trust",
    ),
    "lab": Verb(
        "pylaunch.features.lab.command", "A real cluster on this machine, for trying and testing", after="drill"
    ),
}
