"""Notify people of how a run goes, away from the terminal: `start --notify TARGET`, `attach --notify TARGET`.

target         reads TARGET and delivers to it
observer       makes notifications of the events of a run; a thread for each target delivers them
"""

from pylaunch.terminal.doors import ObserverOption, Verb

VERBS: dict[str, Verb] = {}

OBSERVER = ObserverOption(
    "notify",
    "pylaunch.features.notify.observer",
    {
        "multiple": True,
        "metavar": "TARGET",
        "help": "Notify TARGET of the start, restarts, hangs and the end: https://…, command:PROGRAM or env:NAME (the "
        "target in that variable). Several times: each of them.",
    },
    verbs=("start", "attach"),
)
"""`--notify`."""
