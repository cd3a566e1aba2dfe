"""The environment variables of NCCL, PyTorch, gloo, JAX and what is below them: which exist, and what they may say."""
