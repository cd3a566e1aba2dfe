"""Causes that facts of hosts, of the network and of ranks show. Pure."""
