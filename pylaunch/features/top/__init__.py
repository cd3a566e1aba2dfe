"""Live view of all runs of an inventory: `pylaunch top`, drawn with Textual (extra `top`).

rows          pure: state of a run from the reports of its nodes, and the lines of both tables
live_runs     finds live runs, and follows each in a thread
verb_output   runs another verb in a thread, and keeps its output
app           the screen and its keys
"""

from pylaunch.terminal.doors import Verb

VERBS = {
    "top": Verb(
        "pylaunch.features.top.command",
        "Show all live runs and their nodes on one screen, with keys",
        after="status",
    ),
}
