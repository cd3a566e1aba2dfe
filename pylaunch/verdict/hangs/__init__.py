"""Hangs: suspicion from cheap samples, and the ranks that a hang involves from the views of all ranks. Pure.

suspicion        samples of activity over time  → progressing, waiting or suspect
stacks           frames of a thread             → its signature, and phases that are slow but healthy
calls            views of the ranks of a group  → calls by rank and sequence number
judge            samples of the views           → findings, the best first
"""
