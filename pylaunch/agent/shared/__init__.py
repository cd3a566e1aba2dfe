"""Modules that the agent and the probe share. They import nothing of the other rooms."""
