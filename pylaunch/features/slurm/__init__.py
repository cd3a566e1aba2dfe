"""Nodes that Slurm allocates: in a job that a start submits, or in the job in which pylaunch runs.

door          the functions that the command line calls
nodes         the nodes of a start, and the hosts of other verbs in a job
allocation    submits a job, waits in the queue, ends the job
job_script    the script of a submitted job; daemons: a step with an agent on each node of another job

The core reaches nodes through a job, shows it and follows its end, because records of runs name it.
"""

NODES = "pylaunch.features.slurm.door"
