"""Settings in use, and where each comes from: `pylaunch config show`.

host_values pure: values of the keys of hosts, with the line of the inventory that sets each
command     `config show`: the settings of this directory and environment, then those of the hosts
"""

from __future__ import annotations

from pylaunch.terminal.doors import Verb

VERBS = {
    "config": Verb(
        "pylaunch.features.config.command",
        "Show the settings in use, and where each value comes from",
        after="completion",
    ),
}
