"""Lint of environment variables of NCCL, PyTorch, gloo and JAX: `env lint`, and before a start or a provision.

judgement   pure: names and values of the catalogue, and the findings about settings
command     `env lint`, and files as NCCL and shells read them
"""

SUBCOMMANDS = {"env": "pylaunch.features.variables.command"}
JUDGE = "pylaunch.features.variables.judgement"
