"""Hangs: suspicion from cheap samples, and the ranks that a hang involves from the views of all ranks. Pure.

suspicion        samples of activity over time  → whether to view the ranks, and to report what `judge` finds
calls            views of the ranks of a group  → calls by rank and sequence number, and who waits in them for whom
ranks            views at several moments       → one state of each rank: its place, its work, whether it stands still
judge            states of all ranks            → findings by rows of rules, the best first
"""
