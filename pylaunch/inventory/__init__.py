"""Read an Ansible inventory as a `Cluster`.

load       finds the inventory, lets Ansible parse it or takes the kept answer, reports what Ansible cannot parse
cluster    the listing as a Cluster, or all its errors at once; `--limit`
keys       the keys of a host and how each value is parsed
settings   the file pylaunch.toml
"""

from pylaunch.inventory.load import load_cluster

__all__ = ["load_cluster"]
