"""`pylaunch metrics`: serve live runs as metrics until Ctrl-C."""

import contextlib
import ipaddress
import sys
import threading

import click

from pylaunch.errors import ExitCode, UsageError
from pylaunch.model.text.argv import quoted
from pylaunch.terminal import console
from pylaunch.terminal.doors import imported

DEFAULT = "127.0.0.1:9733"


@click.command()
@click.option("--listen", default=DEFAULT, show_default=True, metavar="ADDRESS:PORT", help="Address to serve at.")
@click.option(
    "--every",
    type=click.FloatRange(1, 3600),
    default=15.0,
    show_default=True,
    metavar="SECONDS",
    help="Interval at which records are read and nodes report.",
)
def command(*, listen: str, every: float) -> int:
    """Serve the live runs that are recorded here as metrics for Prometheus, at http://ADDRESS:PORT/metrics.

    Nothing is stopped or recorded. A scrape waits for no node: it gets what the nodes have reported so far. Ctrl-C
    ends it, and the runs continue.
    """
    address, port = _address(listen)
    try:
        exposition = imported("pylaunch.features.metrics.exposition")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "prometheus_client":
            raise
        raise UsageError(
            "pylaunch metrics needs the package prometheus-client, which is not installed",
            hint=quoted((sys.executable, "-m", "pip", "install", "prometheus-client>=0.21,<1")),
        ) from None
    live = imported("pylaunch.features.metrics.samples").LiveSamples(every)
    with contextlib.ExitStack() as stack, contextlib.suppress(KeyboardInterrupt):
        stack.callback(live.close)
        try:
            bound = stack.enter_context(exposition.served(live, str(address), port))
        except OSError as error:
            text = f"--listen {listen}: {error.strerror or error}"
            raise UsageError(text, hint="--listen 127.0.0.1:0 takes a free port") from None
        shown = f"[{address}]" if address.version == 6 else str(address)
        console.say(f"serving http://{shown}:{bound}/metrics; Ctrl-C ends it")
        if not address.is_loopback:
            console.say(f"warning: {shown} is no loopback address: others can read the names of runs and nodes")
        while True:
            live.refresh()
            threading.Event().wait(every)
    return ExitCode.DONE


def _address(text: str) -> tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int]:
    """Return the address and the port. Raises UsageError."""
    host, colon, port = text.rpartition(":")
    try:
        address = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        colon = ""
    if not colon or not (port.isascii() and port.isdecimal()) or int(port) > 65535:
        raise UsageError(
            f"--listen {text}: expected ADDRESS:PORT", hint=f"--listen {DEFAULT}, or --listen '[::1]:9733'"
        )
    return address, int(port)
