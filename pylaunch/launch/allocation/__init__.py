"""Nodes that Slurm allocates: submit a job, wait for its nodes, start an agent on each of them."""
