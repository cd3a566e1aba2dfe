"""Waits for the nodes of a Ray cluster and runs a task on each: driver.py ADDRESS WORKER,…"""

import sys
import time

import ray

ray.init(address=sys.argv[1])
expected = 1 + len(sys.argv[2].split(","))
while sum(node["Alive"] for node in ray.nodes()) < expected:
    time.sleep(0.5)  # noqa: TID251 -- Ray has no event for a new node


@ray.remote(num_cpus=1)
def square(number: int) -> int:
    return number * number


print("squares:", ray.get([square.remote(number) for number in range(4)]))
