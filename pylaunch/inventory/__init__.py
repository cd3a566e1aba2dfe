"""Read an Ansible inventory as a `Cluster`.

load     reads pylaunch.toml, finds the inventory, lets Ansible parse it or takes the kept answer, reports its errors
cluster  the listing as a Cluster, or all its errors at once; `--limit`
keys     the keys of a host and how each value is parsed
"""

from pylaunch.inventory.load import load_cluster

__all__ = ["load_cluster"]
