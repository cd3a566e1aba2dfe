"""Agent and probe, which run on nodes: standard library only, Python ≥ 3.8."""
