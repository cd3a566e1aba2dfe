"""From an Ansible inventory to a `Cluster`.

load       finds the inventory, asks Ansible for it, applies `--limit`; the only I/O
listing    what `ansible-inventory` answers: groups, hosts in order, variables
cluster    that answer → Cluster, with every complaint at once
keys       the keys a host may have and how each value is understood
template   the small part of Jinja that needs no play
locate     where in the files a host or a key stands, for complaints
refusal    what Ansible says about a source it cannot parse, in fewer words
"""

from pylaunch.inventory.load import load_cluster

__all__ = ["load_cluster"]
