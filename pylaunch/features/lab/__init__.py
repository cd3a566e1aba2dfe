"""A real cluster on one Linux machine (`lab`), and faults in runs of it (`drill`)."""

from pylaunch.terminal.doors import Verb, VerbGroup

VERBS = {
    "drill": Verb(
        "pylaunch.features.lab.drill.command",
        "Inject faults into runs of a lab, and score the verdicts",
        group=VerbGroup.MAINTAIN,
    ),
    "lab": Verb(
        "pylaunch.features.lab.command", "Make a real cluster on this machine, for trying and testing", after="drill"
    ),
}
