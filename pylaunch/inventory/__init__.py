"""Read an Ansible inventory as a `Cluster`.

load       finds the inventory, lets Ansible parse it, applies `--limit`
listing    what `ansible-inventory` answers: groups, hosts in order, variables
cluster    the listing as a Cluster, or all its errors at once
keys       the keys of a host and how each value is parsed
template   Jinja templates that need no play
source_errors  Ansible's words about a source that it cannot parse, and values that contradict each other
    cache      answers of `ansible-inventory`, kept while their inputs are unchanged
"""

from pylaunch.inventory.load import load_cluster

__all__ = ["load_cluster"]
