"""Checks of hosts: kernel, limits, network, storage, Python."""
