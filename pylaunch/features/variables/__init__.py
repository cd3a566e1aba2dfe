"""Lint of environment variables of NCCL, PyTorch, gloo and JAX: `env lint`, and before a start or a provision.

judgement   pure: the catalogue of variables, and the findings about settings
command     `env lint`
"""

SUBCOMMANDS = {"env": "pylaunch.features.variables.command"}
JUDGE = "pylaunch.features.variables.judgement.together"
