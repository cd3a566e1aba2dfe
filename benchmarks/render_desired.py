"""Measure the processor time of computing the desired state, for clusters of several sizes. Connects to no host.

python benchmarks/render_desired.py [--hosts 2,16,64,256]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from pylaunch.inventory import load_cluster
from pylaunch.provision.convergence import site_request
from pylaunch.provision.desired import render


def seconds(hosts: int) -> float:
    """Return the processor time of one rendering, without importing Ansible."""
    with tempfile.TemporaryDirectory() as directory:
        inventory = Path(directory) / "cluster.ini"
        lines = "".join(f"h{index} ansible_host=10.0.{index // 200}.{index % 200 + 1}\n" for index in range(hosts))
        inventory.write_text(f"[cluster]\n{lines}")
        request = site_request(load_cluster(inventory))
        begun = time.process_time()
        render(request.content, request.cluster, extra_vars=request.extra_vars)
        return time.process_time() - begun


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", default="2,16,64,256")
    sizes = [int(size) for size in parser.parse_args().hosts.split(",")]
    seconds(1)
    for size in sizes:
        print(f"{size:4} hosts {seconds(size):7.2f} s")


if __name__ == "__main__":
    main()
