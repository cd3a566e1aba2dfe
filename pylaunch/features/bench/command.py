"""`pylaunch bench`: communication tests, and the node or link that is slow."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from pylaunch.base.dataclass import dataclass, replace
from pylaunch.errors import ExitCode, UsageError
from pylaunch.features.bench import view
from pylaunch.features.bench.judgement.operations import Operation
from pylaunch.features.bench.judgement.summary import BenchSummary
from pylaunch.features.bench.judgement.sweep import DEFAULT_LARGEST, checked_sweep
from pylaunch.features.bench.run.baselines import baseline_path, compared, read_baseline, save_baseline
from pylaunch.features.bench.run.events import USUAL, BenchRequest, BenchResult, BenchStage
from pylaunch.features.bench.run.measure import BACKENDS, bench, chosen_backend
from pylaunch.features.bench.run.summary_file import write_bench_summary
from pylaunch.inventory import load_cluster
from pylaunch.runs.connect.interruptible import signals
from pylaunch.terminal import console, document, options
from pylaunch.terminal.live_area import working

EXAMPLES = """\b
Examples:
  pylaunch bench -i cluster.ini
  pylaunch bench -i cluster.ini --stage pairs --stage compute
  pylaunch bench -i cluster.ini --stage sweep --operation all-reduce --max-size 1G --csv sweep.csv
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
    warm_up: int | None
    time_limit: float | None
    nproc_per_node: int | None
    interface: str | None
    no_ib: bool
    beside: str
    data: str
    python: str | None
    seed: int | None
    csv: Path | None
    plots: Path | None
    html: Path | None
    save_baseline: bool
    table: bool


@click.command(epilog=EXAMPLES)
@options.inventory
@options.limit
@click.option(
    "--stage",
    type=click.Choice([each.value for each in BenchStage]),
    multiple=True,
    help="Only this stage; can be repeated.  [default: all, read with --data]",
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
    help="auto: nccl if every host has devices, else gloo on the CPU; jax: JAX's own gloo on the CPU.",
)
@click.option("--min-size", metavar="SIZE", help="Smallest payload of the sweep.  [default: 4K]")
@click.option("--max-size", metavar="SIZE", help="Largest payload of the sweep.  [default: 64M; 1G with nccl]")
@click.option("--iterations", type=int, metavar="N", help="Most timed iterations of one size.  [default: 20]")
@click.option("--warm-up", type=int, metavar="N", help="Iterations before, which do not count.  [default: 5]")
@click.option("--time-limit", type=float, metavar="SECONDS", help="Omit sizes beyond it.  [default: 300]")
@click.option("--nproc-per-node", type=int, metavar="N", help="Ranks on each host.  [default: one per device]")
@click.option("--interface", metavar="NAME", help="Network interface of the ranks on every host.")
@click.option("--no-ib", is_flag=True, help="Without InfiniBand and RoCE: NCCL uses TCP.")
@click.option(
    "--beside",
    metavar="no-ib|INTERFACE",
    default="",
    help="Sweep again without InfiniBand or over INTERFACE, and compare.",
)
@click.option("--data", metavar="PATH", default="", help="Read this file or directory on every host, and time it.")
@click.option("--python", metavar="PATH", help="Interpreter of the ranks.  [default: the provisioned environment]")
@click.option("--seed", type=int, metavar="N", help="Choice of the rounds of pairs.  [default: random]")
@click.option("--csv", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write the sweep there.")
@click.option(
    "--plots",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIRECTORY",
    help="Write bandwidth.svg, latency.svg and pairs.svg there, those of them that were measured.",
)
@click.option(
    "--html",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write verdicts, plots and table there.",
)
@click.option("--save-baseline", is_flag=True, help="Keep the bandwidths, to compare later measurements with them.")
@click.option("--table", is_flag=True, help="Print the results of all sizes below the verdicts.")
@options.as_json
def command(inventory: Path | None, limit: str | None, as_json: bool, **given: Any) -> int:
    """Measure the communication between all hosts, and name the node or link that is slow.

    Stages: every host connects to every other one; all ranks meet; a small all-reduce is checked; collectives are timed
    over sizes; latency; rounds of disjoint pairs; compute and memory of each device. The first broken stage ends the
    measurement. Rates are decimal: 1 GB/s is 10^9 bytes per second. Exit code 3 for a broken stage, 1 for a slow node,
    link, path or device and for a regression. An interrupt ends the measurement, too: what was measured before is
    shown and written, marked as incomplete (exit code 130).
    """
    flags = BenchFlags(**given)
    cluster = load_cluster(inventory, limit=limit)
    request = _request(flags)
    backend = chosen_backend(cluster, request)
    kept = baseline_path(cluster)
    if flags.save_baseline and kept is None:
        raise UsageError(
            "--save-baseline: it is kept beside an inventory file, and there is none", hint="-i cluster.ini"
        )
    for option, path in (("--csv", flags.csv), ("--html", flags.html)):
        if path is not None and not path.absolute().parent.is_dir():
            raise UsageError(f"{option} {path}: cannot be written: no such directory: {path.parent}")
    if kept is not None:
        read_baseline(kept)  # One that cannot be read ends the command before minutes of measuring.
    if flags.max_size is None and backend in DEFAULT_LARGEST:
        largest = max(DEFAULT_LARGEST[backend], request.sweep.smallest)
        request = replace(request, sweep=replace(request.sweep, largest=largest))
    with working("measuring") as change:
        result = compared(bench(cluster, request, view.BenchView(change).take, signals), request, cluster)
    if flags.save_baseline and (result.is_broken or result.incomplete is not None):
        console.say("warning: no baseline is kept: the measurement is incomplete or broken")
    elif flags.save_baseline:
        console.say(f"baseline: {save_baseline(result, request, cluster)}")
    keep_results(view.summary(result), console.say)
    _write(flags, result)
    if as_json:
        document.show(view.as_json(result))
    else:
        view.conclude(result, with_table=flags.table)
    if result.ended_by is not None:
        raise view.with_next_steps(result.ended_by, result)
    if result.is_broken:
        return ExitCode.CLUSTER_NOT_READY
    verdict = result.verdict
    found = (
        [each for found in result.stragglers.values() for each in found if each.is_confirmed],
        result.regressions,
        *(() if verdict is None else (verdict.nodes, verdict.links, verdict.apart)),
    )
    return ExitCode.JOB_FAILED if any(found) else ExitCode.DONE


def _write(flags: BenchFlags, result: BenchResult) -> None:
    """Write the files of `flags`."""
    if flags.csv is not None:
        with options.writing("--csv", flags.csv):
            flags.csv.write_text(view.as_csv(result), encoding="utf-8")
    if flags.plots is not None:
        with options.writing("--plots", flags.plots):
            drawn = view.plots(result)
            if drawn:
                flags.plots.mkdir(parents=True, exist_ok=True)
            else:
                console.say(f"--plots {flags.plots}: no plot is written, because nothing was measured that has one")
            for name, plot in drawn.items():
                (flags.plots / name).write_text(plot, encoding="utf-8")
    if flags.html is not None:
        with options.writing("--html", flags.html):
            flags.html.write_text(view.as_html(result), encoding="utf-8")


def _request(flags: BenchFlags) -> BenchRequest:
    """Return the request. Raises UsageError for a value that cannot be used."""
    try:
        sweep = checked_sweep(flags.min_size, flags.max_size, flags.iterations, flags.warm_up, flags.time_limit)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if BenchStage.READ.value in flags.stage and not flags.data:
        raise UsageError("--stage read: no file to read", hint="--data /path/of/the/training/data")
    if BenchStage.PAIRS.value in flags.stage and flags.backend == "jax":
        raise UsageError(
            "--stage pairs --backend jax: a collective of JAX has all ranks, so pairs cannot be measured alone",
            hint="--backend gloo, with torch in the environment of the ranks",
        )
    chosen = [BenchStage(name) for name in flags.stage] or [*USUAL, *([BenchStage.READ] if flags.data else [])]
    return BenchRequest(
        stages=frozenset(chosen),
        backend=flags.backend,
        sweep=replace(sweep, operations=tuple(map(Operation, flags.operation or Operation))),
        python=flags.python,
        ranks_per_node=flags.nproc_per_node,
        interface=flags.interface,
        uses_infiniband=not flags.no_ib,
        beside=flags.beside,
        data=flags.data,
        seed=random.randrange(10**6) if flags.seed is None else flags.seed,
    )


def keep_results(summary: BenchSummary, complain: Callable[[str], None]) -> None:
    """Write `summary` to the record of each of its runs; call `complain` with the first error."""
    for run in summary.runs:
        try:
            write_bench_summary(run, summary)
        except OSError as error:
            complain(f"warning: pylaunch report {run} will lack these results: {error.strerror}")
            return
