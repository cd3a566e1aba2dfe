"""Comparison of the ranks in the logs: start lines, collectives, steps and values. Pure.

A difference names the ranks that differ only against a majority; without one it says that they disagree.
"""
