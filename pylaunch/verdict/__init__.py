"""Pure judgements of how a run ends: what each report means, and the cause of a failure.

This package decides from values; `runs` does the I/O that it asks for. Judgements that a node must make
before the controller hears of an end run on nodes and stay in the agent, which imports the standard library alone:
`agent/evidence` (symptoms, exceptions, memory, disks) and `agent/run/lifecycle.py` (order of a stop).
"""
