"""`pylaunch doctor`: the first broken layer between this machine and a running job."""

from __future__ import annotations

from pathlib import Path

import click

from pylaunch.errors import ExitCode
from pylaunch.features.doctor import view
from pylaunch.features.doctor.diagnose import diagnose
from pylaunch.features.doctor.layers import StartLayer
from pylaunch.inventory import load_cluster
from pylaunch.runs.connect.interruptible import signals
from pylaunch.terminal import document, options

EXAMPLES = """\b
Examples:
  pylaunch doctor -i cluster.ini
  pylaunch doctor -i cluster.ini --limit gpu03,gpu07
  pylaunch doctor -H gpu01,gpu02 --python /opt/conda/bin/python
"""


@click.command(epilog=EXAMPLES)
@options.inventory
@options.limit
@click.option("--python", metavar="PATH", help="Interpreter of the ranks.  [default: the provisioned environment]")
@options.as_json
def command(inventory: Path | None, limit: str | None, python: str | None, as_json: bool) -> int:
    """Find out why a run does not start: layer by layer from SSH to an all-reduce, up to the first broken one.

    Prints the cause and the command that mends it. At the end, a job with one rank on each host meets at a barrier and
    sums numbers with gloo (or JAX). It uses the CPU and no device. Exit code 3 when a layer is broken.
    """
    found = diagnose(lambda: load_cluster(inventory, limit=limit), python, view.show, signals)
    if as_json:
        document.show(view.as_json(found))
    else:
        view.conclude(found)
    if found.broken is None:
        return ExitCode.DONE
    return ExitCode.USAGE if found.broken.layer is StartLayer.INVENTORY else ExitCode.CLUSTER_NOT_READY
