"""Why a run does not start: the first broken layer between this machine and a job that works (`doctor`).

layers      pure: facts and findings in, the state of each layer out
diagnose    asks the hosts and judges layer by layer; at the end, ranks of a job meet and compute together
"""

from pylaunch.terminal.doors import Verb, VerbGroup

VERBS = {
    "doctor": Verb(
        "pylaunch.features.doctor.command",
        "Find out why a run does not start: the first broken layer",
        after="check",
        group=VerbGroup.DIAGNOSE,
    ),
}
