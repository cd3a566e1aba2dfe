"""Variables of NCCL, PyTorch, gloo and JAX, and findings about those that are set. Pure.

catalogue           names and the few values that are judged, read from catalogue.toml
lint, together      settings judged alone, and by each other
files               NCCL's own files, and lines NAME=VALUE
"""
