"""A run as a file: the HTML report (`report`), and an archive with it (`report --archive`).

page         pure: the report as text, with its ranks and its timeline
write        reads what is known about a run, from its record and its nodes
archive      the archive, which contains the report, the record and the logs
"""

from pylaunch.terminal.doors import Names, Verb, VerbGroup

VERBS = {
    "report": Verb(
        "pylaunch.features.report.command",
        "Write a run as one HTML file, or as an archive with its logs",
        after="stacks",
        names=Names.RUN,
        group=VerbGroup.DIAGNOSE,
    ),
}
