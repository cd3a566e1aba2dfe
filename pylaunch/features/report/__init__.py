"""A run as one HTML file (`report`): verdict, evidence, timeline, last lines of ranks. `page` and `rows` are pure."""

from pylaunch.terminal.doors import Names, Verb, VerbGroup

VERBS = {
    "report": Verb(
        "pylaunch.features.report.command",
        "Write a run as one HTML file: why it failed, timeline, last lines",
        after="stacks",
        names=Names.RUN,
        group=VerbGroup.DIAGNOSE,
    ),
}
