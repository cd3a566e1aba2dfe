"""`pylaunch bench`: communication tests, and the node or link that is slow."""

from pathlib import Path
from typing import Any

import click

from pylaunch.errors import ExitCode
from pylaunch.features.bench import view
from pylaunch.features.bench.events import CHOSEN, BenchRequest, BenchStage
from pylaunch.features.bench.measure import BACKENDS, bench
from pylaunch.inventory import load_cluster
from pylaunch.terminal import console, document, options
from pylaunch.transport.interrupts import signals

EXAMPLES = """\b
Examples:
  pylaunch bench -i cluster.ini
  pylaunch bench -i cluster.ini --stage pairs
"""


@click.command(epilog=EXAMPLES)
@options.inventory
@options.limit
@click.option(
    "--stage",
    "stages",
    type=click.Choice([each.value for each in CHOSEN]),
    multiple=True,
    help="Only this stage.  [default: both]",
)
@click.option(
    "--backend",
    type=click.Choice(BACKENDS),
    default="auto",
    show_default=True,
    help="auto: nccl if every host has devices, else gloo on the CPU.",
)
@click.option(
    "--no-ib",
    "uses_infiniband",
    is_flag=True,
    flag_value=False,
    default=True,
    help="Without InfiniBand and RoCE: NCCL uses TCP.",
)
@click.option("--python", metavar="PATH", help="Interpreter of the ranks.  [default: the provisioned environment]")
@options.as_json
def command(inventory: Path | None, limit: str | None, stages: tuple[str, ...], *, as_json: bool, **how: Any) -> int:
    """Measure the communication between all hosts, and name the node or link that is slow.

    All ranks meet; a small all-reduce is checked; all-reduces are timed over sizes; then rounds of disjoint pairs of
    hosts. The first broken stage ends the measurement. Rates are decimal: 1 GB/s is 10^9 bytes per second. Exit code 3
    for a broken stage, 1 for a slow node, link or path.
    """
    chosen = frozenset(map(BenchStage, stages)) or frozenset(CHOSEN)
    request = BenchRequest(chosen, **how)
    cluster = load_cluster(inventory, limit=limit)
    with console.working("measuring"):
        result = bench(cluster, request, view.BenchView().take, signals)
    if as_json:
        document.show(view.as_json(result))
    else:
        for line in view.conclusions(result):
            console.say(line)
    if result.is_broken:
        return ExitCode.CLUSTER_NOT_READY
    verdict = result.verdict
    is_slow = verdict is not None and bool(verdict.nodes or verdict.links or verdict.apart)
    return ExitCode.JOB_FAILED if is_slow else ExitCode.DONE
