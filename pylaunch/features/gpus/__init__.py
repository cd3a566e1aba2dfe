"""Every device of every host, and who holds it (`gpus`). It only looks: nothing of a start needs it.

devices   the devices of all hosts with their holders
command   `gpus`
"""

from pylaunch.terminal.doors import Names, Verb

VERBS = {
    "gpus": Verb(
        "pylaunch.features.gpus.command",
        "Show every device of every host, and who holds it",
        after="logs",
        names=Names.HOSTS,
    ),
}
