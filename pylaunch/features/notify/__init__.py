"""Notify people of how a run goes, away from the terminal: `start --notify TARGET`, `attach --notify TARGET`.

observer       makes notifications of the events of a run; a thread for each target posts them
"""

from pylaunch.terminal.doors import ObserverOption
from pylaunch.terminal.options import Group, InJobFile, Option

OBSERVER = ObserverOption(
    Option(
        name="notify", group=Group.FOLLOWING, multiple=True, default=(), metavar="TARGET",
        verbs=("start", "rerun", "attach"), in_job_file=InJobFile.WHOLE,
        help="Notify a webhook of the start, restarts, hangs and the end: https://…, or env:NAME, the variable that "
        "has it. Several times: each of them.",
    ),
    "pylaunch.features.notify.observer",
)  # fmt: skip
