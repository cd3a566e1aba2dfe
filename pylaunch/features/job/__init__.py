"""Jobs of several roles: trainers, servers and others in one start, each role with its own ranks."""

from pylaunch.terminal.doors import StartFile

START_FILE = StartFile(".toml", "pylaunch.features.job.starting")
