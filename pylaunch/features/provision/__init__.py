"""Provisioning: bring every host of an inventory to the same known state, with Ansible (`provision`, `env`).

inputs         pure: what each role is given on each host, as one digest
manifest       asks hosts what roles recorded there, and compares
convergence    runs the playbook on hosts that differ, batch after batch
provisioning   plan, change, reset
environments/  the locked Python environment: lock it, pass it on to hosts
view           lines and JSON of the verb
"""

from pylaunch.terminal.doors import Names, Verb

VERBS = {
    "env": Verb(
        "pylaunch.features.provision.env_command",
        "Lock the Python environment of the hosts, and show it",
        after="trust",
        names=Names.HOSTS,
        subcommands=("lock", "show"),
    ),
    "provision": Verb(
        "pylaunch.features.provision.command",
        "Bring every host of the inventory to the same known state",
        after="env",
        names=Names.HOSTS,
        example="pylaunch provision -i cluster.ini                    one state on every host",
    ),
}
