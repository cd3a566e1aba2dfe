"""A run as a file: the HTML report (`report`), and an archive with it (`report --archive`).

page         pure: a record as HTML text, with its ranks and its timeline
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
