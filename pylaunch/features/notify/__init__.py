"""Notify people of how a run goes, away from the terminal: `start --notify TARGET`, `attach --notify TARGET`.

notification   pure: the notification of an event or of the end of a run
target         reads TARGET
deliver        hands one notification to one target
observer       a thread for each target, whose failures are one line of warning
"""

from pylaunch.terminal.doors import ObserverOption, Verb

VERBS: dict[str, Verb] = {}

OBSERVER = ObserverOption(
    "notify",
    "pylaunch.features.notify.observer",
    {
        "multiple": True,
        "metavar": "TARGET",
        "help": "Notify TARGET of the start, restarts, hangs and the end: https://…, command:PROGRAM, mailto:ADDRESS, "
        "desktop, env:NAME (the target in that variable), or a URL of apprise. Several times: each of them.",
    },
    verbs=("start", "attach"),
)
"""`--notify`."""
