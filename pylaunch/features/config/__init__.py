"""Settings in use, and where each comes from: `pylaunch config show`."""

from pylaunch.terminal.doors import Verb

VERBS = {
    "config": Verb(
        "pylaunch.features.config.command",
        "Show the settings in use, and where each value comes from",
        after="completion",
    ),
}
