"""Comparison of the ranks and nodes in the logs: identities, collectives, versions, networks and variables. Pure.

A difference names the ranks that differ only against a majority; without one it says that they disagree.
"""
