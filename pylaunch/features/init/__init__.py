"""The first inventory: hosts examined and written down with reasons (`init`).

sources         hosts in words and hostfiles
host_readings   asks the hosts
choices         pure: values of the inventory with their reasons
inventory_text  pure: the text of the file
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
