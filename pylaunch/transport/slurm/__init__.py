"""Hosts of a Slurm job, reached with srun inside the job."""
