"""`pylaunch bench`: communication tests, and the node or link that is slow."""

from pathlib import Path
from typing import Any

import click

from pylaunch.base.dataclass import dataclass, replace
from pylaunch.errors import ExitCode, UsageError
from pylaunch.features.bench import view
from pylaunch.features.bench.judgement.sweep import DEFAULT_LARGEST, Operation, checked_sweep
from pylaunch.features.bench.run.events import BenchRequest, BenchStage
from pylaunch.features.bench.run.measure import BACKENDS, bench, chosen_backend
from pylaunch.inventory import load_cluster
from pylaunch.runs.connect.interruptible import signals
from pylaunch.terminal import console, document, options

EXAMPLES = """\b
Examples:
  pylaunch bench -i cluster.ini
  pylaunch bench -i cluster.ini --stage pairs
  pylaunch bench -i cluster.ini --stage sweep --operation all-reduce --max-size 1G --table
"""


@dataclass(frozen=True)
class BenchFlags:
    """Flags of `bench` as they are parsed."""

    stage: tuple[str, ...]
    operation: tuple[str, ...]
    backend: str
    min_size: str | None
    max_size: str | None
    iterations: int | None
    nproc_per_node: int | None
    interface: str | None
    no_ib: bool
    python: str | None
    table: bool


@click.command(epilog=EXAMPLES)
@options.inventory
@options.limit
@click.option(
    "--stage",
    type=click.Choice([each.value for each in BenchStage]),
    multiple=True,
    help="Only this stage; can be repeated.  [default: all]",
)
@click.option(
    "--operation",
    type=click.Choice([each.value for each in Operation]),
    multiple=True,
    help="Only this collective in the sweep; can be repeated.  [default: all]",
)
@click.option(
    "--backend",
    type=click.Choice(BACKENDS),
    default="auto",
    show_default=True,
    help="auto: nccl if every host has devices, else gloo on the CPU.",
)
@click.option("--min-size", metavar="SIZE", help="Smallest payload of the sweep.  [default: 4K]")
@click.option("--max-size", metavar="SIZE", help="Largest payload of the sweep.  [default: 64M; 1G with nccl]")
@click.option("--iterations", type=int, metavar="N", help="Most timed iterations of one size.  [default: 20]")
@click.option("--nproc-per-node", type=int, metavar="N", help="Ranks on each host.  [default: one per device]")
@click.option("--interface", metavar="NAME", help="Network interface of the ranks on every host.")
@click.option("--no-ib", is_flag=True, help="Without InfiniBand and RoCE: NCCL uses TCP.")
@click.option("--python", metavar="PATH", help="Interpreter of the ranks.  [default: the provisioned environment]")
@click.option("--table", is_flag=True, help="Print the results of all sizes below the verdicts.")
@options.as_json
def command(inventory: Path | None, limit: str | None, as_json: bool, **given: Any) -> int:
    """Measure the communication between all hosts, and name the node or link that is slow.

    Stages: every host connects to every other one; all ranks meet; a small all-reduce is checked; collectives are timed
    over sizes; latency; rounds of disjoint pairs. The first broken stage ends the
    measurement. Rates are decimal: 1 GB/s is 10^9 bytes per second. Exit code 3 for a broken stage, 1 for a slow node,
    link or path. An interrupt ends the measurement, too: what was measured before is shown (exit code 130).
    """
    flags = BenchFlags(**given)
    cluster = load_cluster(inventory, limit=limit)
    request = _request(flags)
    backend = chosen_backend(cluster, request)
    if flags.max_size is None and backend in DEFAULT_LARGEST:
        largest = max(DEFAULT_LARGEST[backend], request.sweep.smallest)
        request = replace(request, sweep=replace(request.sweep, largest=largest))
    with console.working("measuring") as change:
        result = bench(cluster, request, view.BenchView(change).take, signals)
    if as_json:
        document.show(view.as_json(result))
    else:
        view.conclude(result, with_table=flags.table)
    if result.ended_by is not None:
        raise result.ended_by
    if result.is_broken:
        return ExitCode.CLUSTER_NOT_READY
    verdict = result.verdict
    is_slow = verdict is not None and bool(verdict.nodes or verdict.links or verdict.apart)
    return ExitCode.JOB_FAILED if is_slow else ExitCode.DONE


def _request(flags: BenchFlags) -> BenchRequest:
    """Return the request. Raises UsageError for a value that cannot be used."""
    try:
        sweep = checked_sweep(flags.min_size, flags.max_size, flags.iterations)
    except ValueError as error:
        raise UsageError(str(error)) from None
    return BenchRequest(
        stages=frozenset(map(BenchStage, flags.stage)) or frozenset(BenchStage),
        backend=flags.backend,
        sweep=replace(sweep, operations=tuple(map(Operation, flags.operation or Operation))),
        python=flags.python,
        ranks_per_node=flags.nproc_per_node,
        interface=flags.interface,
        uses_infiniband=not flags.no_ib,
    )
