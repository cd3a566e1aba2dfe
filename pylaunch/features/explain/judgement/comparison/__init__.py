"""Comparison of the ranks in the logs: start lines and collectives. Pure.

A difference names the ranks that differ only against a majority; without one it says that they disagree.
"""
