"""Lint of environment variables of NCCL, PyTorch, gloo and JAX, before a start or a provision.

judgement   pure: names and values of the catalogue, and the findings about settings
"""

JUDGE = "pylaunch.features.variables.judgement"
