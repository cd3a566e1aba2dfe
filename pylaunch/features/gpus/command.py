"""`pylaunch gpus`: every device of every host, and who holds it."""

from collections.abc import Sequence
from pathlib import Path

import click

from pylaunch.base.dataclass import asdict
from pylaunch.checks.occupancy.look import HostView
from pylaunch.errors import ExitCode
from pylaunch.features import hosts_to_ask
from pylaunch.features.gpus.devices import DeviceView, list_devices
from pylaunch.model.diagnosis.host_errors import error_lines, of_hosts
from pylaunch.model.hostset import alike, fold
from pylaunch.terminal import console, document, hints, options
from pylaunch.terminal.views.processes import as_data


@click.command()
@options.inventory
@options.limit
@options.as_json
def command(inventory: Path | None, limit: str | None, *, as_json: bool) -> int:
    """Show every device of every host: what it is, how full, which run leases it, and who holds it without a lease."""
    cluster = hosts_to_ask(inventory, limit)
    report = list_devices(cluster)
    if as_json:
        reasons = {name: why.reason for name, why in report.unreachable.items()}
        known = {name: _data(view, report.devices[name]) for name, view in report.views.items()}
        document.show({"hosts": document.hosts(cluster.names, reasons, known)})
    elif any(report.devices.values()):
        columns = ("HOST", "GPU", "MODEL", "MEMORY", "UTIL", "LEASED TO", "HELD WITHOUT LEASE BY")
        console.table(columns, [_row(row) for rows in report.devices.values() for row in rows])
    if report.without_devices:
        hosts = fold(report.without_devices)
        console.say(f"{hosts}: no devices, neither in the inventory (gpus=, devices=) nor by nvidia-smi")
    complaints = {name: (view.complaint,) for name, view in report.views.items() if view.complaint is not None}
    for hosts, complaint in alike(complaints):
        console.say(f"{hosts}: nvidia-smi: {complaint}")
    for hosts, unread in alike({name: view.unread for name, view in report.views.items()}):
        console.say(f"{hosts}: could not look at {unread.subject}: {unread.reason}")
    for line in error_lines(cluster.hosts, {name: why.reason for name, why in report.unreachable.items()}):
        console.say(line)
    if steps := of_hosts({name: why.hint for name, why in report.unreachable.items()}):
        hints.say(*steps)
    return ExitCode.CLUSTER_NOT_READY if report.unreachable else ExitCode.DONE


def _data(view: HostView, rows: Sequence[DeviceView]) -> dict[str, object]:
    return {
        "devices": [_device(row) for row in rows],
        "complaint": view.complaint,
        "unread": [asdict(each) for each in view.unread],
    }


def _device(row: DeviceView) -> dict[str, object]:
    held, card = row.lease, row.card
    since = None if held is None else document.moment(held["since"])
    return {
        "index": row.index,
        "model": card and card["name"],
        "memory_used_mib": card and card["memory_used_mib"],
        "memory_total_mib": card and card["memory_total_mib"],
        "utilization_percent": card and card["utilization_percent"],
        "lease": held and {"run": held["run"] or None, "user": held["user"], "since": since, "words": held["words"]},
        "unleased": [as_data(each) for each in row.unleased],
    }


def _row(row: DeviceView) -> tuple[str, ...]:
    model, memory, used = "", "", ""
    if row.card is not None:
        model = row.card["name"] or ""
        total, percent = row.card["memory_total_mib"], row.card["utilization_percent"]
        memory = "" if total is None else f"{row.card['memory_used_mib']}/{total} MiB"
        used = "" if percent is None else f"{percent} %"
    holders = "; ".join(
        f"{occupant}" + ("" if occupant.memory_mib is None else f" {occupant.memory_mib} MiB")
        for occupant in row.unleased
    )
    return row.host, str(row.index), model, memory, used, "" if row.lease is None else row.lease["words"], holders
