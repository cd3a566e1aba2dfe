"""Specifications of what roles promise, run against every host: `pylaunch verify`.

verification     runs pytest on `verify/`, whose testinfra specifications look at each host
specifications   pure: the JUnit report of pytest in, results out
"""

from pylaunch.terminal.doors import Names, Verb

VERBS = {
    "verify": Verb(
        "pylaunch.features.verify.command",
        "Test that every host is as the roles promise; JUnit report",
        after="provision",
        names=Names.HOSTS,
    ),
}
