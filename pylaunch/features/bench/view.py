"""Results of `pylaunch bench`, as lines and as JSON. Rates are decimal (1 GB/s is 10^9 bytes/s), sizes are bytes."""

from collections.abc import Iterator
from statistics import median

from pylaunch.base.dataclass import asdict
from pylaunch.features.bench.events import BenchBegun, BenchEvent, BenchResult, StageEndedOnAll
from pylaunch.features.bench.judgement.measurements import AllReduceTimed, bus_bandwidth
from pylaunch.model.hostset import fold
from pylaunch.model.run import Event
from pylaunch.model.text.quantity import shown_size
from pylaunch.terminal import console, hints


class BenchView:
    """Lines while the ranks measure."""

    def __init__(self) -> None:
        self._ranks = 0

    def take(self, event: BenchEvent) -> None:
        """Print `event`; a `BenchEmit`."""
        if isinstance(event, BenchBegun):
            self._ranks = event.ranks
            console.say(f"run {event.run}: {event.ranks} ranks on {fold(event.hosts)}, backend {event.backend}")
        elif isinstance(event, AllReduceTimed):
            console.say(all_reduce_line(event, self._ranks), style="red" if event.wrong else None)
        elif isinstance(event, StageEndedOnAll):
            _show_stage(event)
        elif isinstance(event, Event):
            console.say(event.text)


def all_reduce_line(each: AllReduceTimed, ranks: int) -> str:
    """Return size, time and bus bandwidth, and the wrong elements if there are any."""
    seconds = median(each.seconds)
    rate = f"{seconds * 1e6:.1f} us, {bus_bandwidth(each.size, seconds, ranks):.3f} GB/s of bus bandwidth"
    wrong = f", {each.wrong} wrong elements" if each.wrong else ""
    return f"all-reduce of {shown_size(each.size)}: {rate}{wrong}"


def _show_stage(event: StageEndedOnAll) -> None:
    where = f" ({fold(event.hosts)})" if event.hosts else ""
    state = "broken" if event.is_broken else "ok"
    line = f"{state:<7} {event.stage.value}: {event.text}{where} ({event.seconds:.1f} s)"
    console.say(line, style="red" if event.is_broken else None)
    if event.is_broken:
        console.quote(event.evidence)
        for hint in event.hints:
            console.say(f"hint: {hints.completed(hint)}")


def conclusions(result: BenchResult) -> Iterator[str]:
    """Yield one line for each verdict."""
    if result.dropped:
        yield f"warning: {result.dropped} lines of ranks were no measurements and are not used"
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


def as_json(result: BenchResult) -> dict[str, object]:
    """Return all results as data."""
    names, verdict = result.hosts, result.verdict
    return {
        "hosts": list(names),
        "backend": result.backend,
        "ranks": result.ranks,
        "runs": list(result.runs),
        "stages": [
            {
                **{key: value for key, value in asdict(each).items() if key != "is_broken"},
                "stage": each.stage.value,
                "state": "broken" if each.is_broken else "ok",
            }
            for each in result.stages
        ],
        "all_reduce": [
            {
                "bytes": each.size,
                "seconds": median(each.seconds),
                "busbw_gbps": bus_bandwidth(each.size, median(each.seconds), result.ranks),
                "wrong": each.wrong,
            }
            for each in result.all_reduces
        ],
        "pairs": [
            {"first": names[first], "second": names[second], "gbps": list(rates)}
            for (first, second), rates in sorted(result.pair_rates.items())
        ],
        "slow_nodes": [] if verdict is None else [
            {"host": names[each.node], "share": each.share, "gbps": each.rate} for each in verdict.nodes
        ],
        "slow_links": [] if verdict is None else [
            {"first": names[each.pair[0]], "second": names[each.pair[1]], "share": each.share, "gbps": each.rate}
            for each in verdict.links
        ],
        "slow_path": [] if verdict is None else [names[each] for each in verdict.apart],
        "unclear": [] if verdict is None else [names[each] for each in verdict.unclear],
        "abstained": None if verdict is None else verdict.abstained or None,
    }  # fmt: skip
