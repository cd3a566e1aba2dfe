"""The first inventory: hosts in any form that people have, examined and written down with reasons (`init`).

judgement/      pure: hosts in texts, values of the inventory with their reasons, the text of the file
gather          reads the texts
host_readings   asks the hosts
command         the verb
"""

from pylaunch.terminal.doors import Verb, VerbGroup

VERBS = {
    "init": Verb(
        "pylaunch.features.init.command",
        "Examine hosts and write their inventory: cluster.ini, annotated",
        group=VerbGroup.PREPARE,
        is_first=True,
        example="pylaunch init 'gpu[01-04]'                           write cluster.ini",
    ),
}
