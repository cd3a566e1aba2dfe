"""Facts on which hosts disagree (`drift`), and sealed records of hosts (`attest`)."""

from pylaunch.terminal.doors import Verb

VERBS = {
    "drift": Verb(
        "pylaunch.features.drift.command",
        "Show every fact on which the hosts disagree, and its cause",
        after="verify",
    ),
    "attest": Verb(
        "pylaunch.features.drift.attest_command",
        "Record the facts of hosts, sealed; compare hosts with a record",
        after="drift",
    ),
}
