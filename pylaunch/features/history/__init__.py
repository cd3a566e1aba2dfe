"""History of all runs on this machine: `pylaunch history`, longer than records are kept.

summary     pure: runs and nodes of many attempts
faults      pure: failures that show a fault of a node itself, and unhealthy nodes
database    SQLite beside the records; the records fill it again
observer    adds the attempts of a run when it has ended
hosts       names unhealthy nodes in `check`, and leaves them out of `start --avoid-unhealthy`
"""

from pylaunch.terminal.doors import Verb

VERBS = {
    "history": Verb(
        "pylaunch.features.history.command",
        "Show which nodes failed, how often and why, and the time lost",
        after="ps",
    ),
}

OBSERVER_OF_ALL_RUNS = "pylaunch.features.history.observer"
HOSTS = "pylaunch.features.history.hosts"
