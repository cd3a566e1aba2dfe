"""Variables of NCCL, PyTorch, gloo and JAX, and findings about those that are set. Pure.

kinds               values that a variable can have
variable            facts about one variable, with their source
nccl, frameworks    the catalogue
registry            all known variables, by name
lint, together      settings judged alone, and by each other
files               NCCL's own files, and lines NAME=VALUE
"""
