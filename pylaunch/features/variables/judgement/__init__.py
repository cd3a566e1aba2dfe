"""Variables of NCCL, PyTorch, gloo and JAX, and findings about those that are set. Pure.

kinds               values that a variable can have
variable            facts about one variable, with their source
nccl, frameworks    the catalogue
lint, together      settings judged alone, by the registry of all known variables, and by each other
files               NCCL's own files, and lines NAME=VALUE
"""
