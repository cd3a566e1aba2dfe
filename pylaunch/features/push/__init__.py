"""Copies of files on every host (`push`)."""

from pylaunch.terminal.doors import Names, Verb

VERBS = {
    "push": Verb(
        "pylaunch.features.push.command",
        "Copy files to every host; hosts pass them on to each other",
        after="verify",
        names=Names.HOSTS,
    ),
}
