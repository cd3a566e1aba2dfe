"""A run as a file: the HTML report (`report`, `start --report`), and an archive with it (`report --archive`).

page/        pure: the report as text
write        reads what is known about a run, from its record and its nodes
archive      the archive, which contains the report
at_end       the report of a start that failed
"""

from pylaunch.store.output_directory import OUTPUT_DIRECTORY
from pylaunch.terminal.doors import ObserverOption, Verb, VerbGroup

VERBS = {
    "report": Verb(
        "pylaunch.features.report.command",
        "Write a run as one HTML file, or as an archive with its logs",
        after="stacks",
        group=VerbGroup.DIAGNOSE,
    ),
}

NAMED_BY_RUN = "pylaunch-RUN.html"
"""Value of --report without a file."""

OBSERVER = ObserverOption(
    "report",
    "pylaunch.features.report.at_end",
    {
        "is_flag": False,
        "flag_value": NAMED_BY_RUN,
        "metavar": "[FILE]",
        "help": f"If the run fails, write it as one HTML file.  [default: {OUTPUT_DIRECTORY}/{NAMED_BY_RUN}]",
    },
)
