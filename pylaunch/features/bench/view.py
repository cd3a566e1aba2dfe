"""Results of `pylaunch bench`, as lines like those of nccl-tests and as JSON.

Rates are decimal (1 GB/s is 10^9 bytes/s), sizes are bytes.
"""

from collections.abc import Callable, Iterator, Mapping
from statistics import median, quantiles

from pylaunch.base.dataclass import asdict
from pylaunch.features.bench.judgement.bounds import Judgement, judged_bandwidth
from pylaunch.features.bench.judgement.measurements import CollectiveTimed, LatencyTimed
from pylaunch.features.bench.judgement.sweep import algorithm_bandwidth, bus_bandwidth
from pylaunch.features.bench.run.events import (
    BenchBegun,
    BenchEvent,
    BenchResult,
    StageEndedOnAll,
    StageState,
)
from pylaunch.model.hostset import fold
from pylaunch.model.run import Event
from pylaunch.terminal import console, hints

HEADER = f"{'operation':<15} {'bytes':>12} {'time':>10} {'algbw':>9} {'busbw':>9} {'wrong':>6}"
MOST_TRIPS = 8
LONGEST_TRIPS = 3
"""Round trips with a line, of more than MOST_TRIPS."""

UNITS = f"{'':<15} {'':>12} {'us':>10} {'GB/s':>9} {'GB/s':>9}"


class BenchView:
    """Lines while the ranks measure; `working` shows the newest result of a collective until the next one."""

    def __init__(self, working: Callable[[str], None]) -> None:
        self._ranks = 0
        self._working = working

    def take(self, event: BenchEvent) -> None:
        """Print `event`; a `BenchEmit`."""
        if isinstance(event, BenchBegun):
            self._ranks = event.ranks
            console.say(f"run {event.run}: {event.ranks} ranks on {fold(event.hosts)}, backend {event.backend}")
        elif isinstance(event, CollectiveTimed):
            self._working(f"{event.operation.value} of {event.size} bytes: {median(event.seconds) * 1e6:.1f} us")
            if event.wrong:
                console.say(row(event, self._ranks), style="red")
        elif isinstance(event, StageEndedOnAll):
            _show_stage(event)
        elif isinstance(event, Event):
            console.say(event.text)


def row(each: CollectiveTimed, ranks: int) -> str:
    """Return one line of the table."""
    seconds = median(each.seconds)
    algorithm = algorithm_bandwidth(each.size, seconds)
    bus = bus_bandwidth(each.operation, each.size, seconds, ranks)
    rates = f"{seconds * 1e6:>10.1f} {algorithm:>9.3f} {bus:>9.3f}"
    return f"{each.operation.value:<15} {each.size:>12} {rates} {each.wrong:>6}"


def stage_line(event: StageEndedOnAll) -> str:
    """Return state, name, text, hosts and duration of a stage."""
    where = f" ({fold(event.hosts)})" if event.hosts else ""
    return f"{event.state.value:<8} {event.stage.value}: {event.text}{where} ({event.seconds:.1f} s)"


def _show_stage(event: StageEndedOnAll) -> None:
    is_broken = event.state is StageState.BROKEN
    console.say(stage_line(event), style="red" if is_broken else None)
    if is_broken:
        console.quote(event.evidence)
        for hint in event.hints:
            console.say(f"hint: {hints.completed(hint)}")


def conclude(result: BenchResult, *, with_table: bool) -> None:
    """Print the verdicts, and below them the table or the commands that show it."""
    for line in conclusions(result):
        console.say(line)
    if with_table:
        for line in table(result):
            console.say(line)
    elif result.collectives:
        omitted = f"; larger sizes of {len(result.omitted)} are omitted" if result.omitted else ""
        console.say(f"results of collectives: {len(result.collectives)}{omitted}; shown with --table")


def table(result: BenchResult) -> Iterator[str]:
    """Yield the results of all collectives, and the sizes that were omitted."""
    if result.collectives:
        yield from (HEADER, UNITS)
    yield from (row(each, result.conditions.ranks) for each in result.collectives)
    yield from (f"{each.operation.value:<15} {each.size:>12} omitted: {each.reason}" for each in result.omitted)


def conclusions(result: BenchResult) -> Iterator[str]:
    """Yield one line for each verdict, and the latencies and rates."""
    yield from _pairs(result)
    if result.dropped:
        yield f"warning: {result.dropped} lines of ranks were no measurements and are not used"
    yield from _latency_lines(result)
    yield from _bounds(result)


def _latency_lines(result: BenchResult) -> Iterator[str]:
    """Yield the latency of the all-reduce and of each round trip; of many round trips, the longest ones."""
    trips = sorted((each for each in result.latencies if each.peer is not None), key=lambda each: -median(each.seconds))
    shown = trips if len(trips) <= MOST_TRIPS else trips[:LONGEST_TRIPS]
    for each in (*(each for each in result.latencies if each.peer is None), *shown):
        low, middle, high = _latencies(each)
        who = "" if each.peer is None else f" between ranks {each.rank} and {each.peer}"
        yield f"latency of {each.of}{who}: median {middle:.1f} us, p99 {high:.1f} us, least {low:.1f} us"
    if len(shown) < len(trips):
        usual = median(median(each.seconds) for each in trips) * 1e6
        yield f"latency of the {len(trips)} round trips, of which the longest are above: median {usual:.1f} us"


def _bounds(result: BenchResult) -> Iterator[str]:
    """Yield the share of the tightest bound, for the largest size of each collective."""
    largest = {each.operation: each for each in sorted(result.collectives, key=lambda each: each.size)}
    reasons = set()
    for operation, each in largest.items():
        rate = bus_bandwidth(operation, each.size, median(each.seconds), result.conditions.ranks)
        found = judged_bandwidth(operation, each.size, rate, result.conditions)
        if isinstance(found, Judgement):
            bound = found.bound
            yield f"{operation.value}: {found.share:.0%} of {bound.rate:.2f} GB/s, the tightest bound: {bound.text}"
        else:
            reasons.add(found)
    yield from sorted(reasons)


def _pairs(result: BenchResult) -> Iterator[str]:
    verdict, names = result.verdict, result.hosts
    if verdict is None:
        return
    if verdict.abstained:
        yield f"pairs: no verdict: {verdict.abstained}"
        return
    for node in verdict.nodes:
        partners = fold([names[each] for each in node.partners])
        rate = f"{node.rate:.3f} GB/s, {node.share:.0%} of the median"
        yield f"slow node: {names[node.node]} at {rate}, with {partners}"
    for link in verdict.links:
        ends = f"{names[link.pair[0]]} to {names[link.pair[1]]}"
        rate = f"{link.rate:.3f} GB/s, {link.share:.0%} of the median"
        yield f"slow link: {ends} at {rate}; both hosts are normal with others"
    if verdict.apart:
        apart = fold([names[each] for each in verdict.apart])
        yield f"slow path: {apart} are slow with the others and normal among themselves: look at the switch between"
    if verdict.unclear:
        yield f"unclear: {fold([names[each] for each in verdict.unclear])}: slow in some rounds, which may be chance"
    if not (verdict.nodes or verdict.links or verdict.apart or verdict.unclear):
        yield f"pairs: no slow node and no slow link among {len(result.pair_rates)} measured pairs"


def _latencies(each: LatencyTimed) -> tuple[float, float, float]:
    """Return least, median and 99th percentile in microseconds."""
    high = quantiles(each.seconds, n=100)[98] if len(each.seconds) > 1 else each.seconds[0]
    return min(each.seconds) * 1e6, median(each.seconds) * 1e6, high * 1e6


def _noise(each: CollectiveTimed) -> float:
    """Return the standard deviation of the parts of the iterations, relative to their median."""
    middle = median(each.seconds)
    return 1.4826 * median(abs(one - middle) for one in each.seconds) / middle


def as_json(result: BenchResult) -> dict[str, object]:
    """Return all results as data."""
    names, verdict = result.hosts, result.verdict
    return {
        "hosts": list(names),
        "backend": result.conditions.backend,
        "ranks": result.conditions.ranks,
        "runs": list(result.runs),
        "stages": [
            {**asdict(each), "stage": each.stage.value, "state": each.state.value} for each in result.stages
        ],
        "collectives": [
            {
                "operation": each.operation.value,
                "bytes": each.size,
                "seconds": median(each.seconds),
                "algbw_gbps": algorithm_bandwidth(each.size, median(each.seconds)),
                "busbw_gbps": bus_bandwidth(each.operation, each.size, median(each.seconds), result.conditions.ranks),
                "noise": _noise(each),
                "wrong": each.wrong,
                "iterations": each.iterations,
            }
            for each in result.collectives
        ],
        "omitted": [
            {"operation": each.operation.value, "bytes": each.size, "reason": each.reason} for each in result.omitted
        ],
        "latencies": [_latency(each) for each in result.latencies],
        "pairs": [
            {"first": names[first], "second": names[second], "gbps": list(rates)}
            for (first, second), rates in sorted(result.pair_rates.items())
        ],
        "slow_nodes": [] if verdict is None else [
            {"host": names[each.node], "share": each.share, "gbps": each.rate} for each in verdict.nodes
        ],
        "slow_links": [] if verdict is None else [
            {
                "first": names[each.pair[0]],
                "second": names[each.pair[1]],
                "share": each.share,
                "gbps": each.rate,
            }
            for each in verdict.links
        ],
        "slow_path": [] if verdict is None else [names[each] for each in verdict.apart],
        "unclear": [] if verdict is None else [names[each] for each in verdict.unclear],
        "abstained": None if verdict is None else verdict.abstained or None,
        "conclusions": list(conclusions(result)),
    }  # fmt: skip


def _latency(each: LatencyTimed) -> Mapping[str, object]:
    low, middle, high = _latencies(each)
    return {
        "of": each.of,
        "rank": each.rank,
        "peer": each.peer,
        "bytes": each.size,
        "least_us": low,
        "median_us": middle,
        "p99_us": high,
    }
