"""Runs a task on each node of a Ray cluster.

pylaunch start -i cluster.ini --sync examples --framework ray -- ray_driver.py
"""

import os
import socket

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

ray.init()  # RAY_ADDRESS is set, and all nodes have joined.


@ray.remote(num_cpus=1)
def where() -> str:
    return f"{socket.gethostname()} (pid {os.getpid()})"


nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
tasks = [where.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote() for node in nodes]
for answer in ray.get(tasks):
    print("task ran on", answer)
