"""Links of a host: `ibstat`, `ibstatus`, `ibv_devinfo`, `ip -br addr`, and interfaces that variables name. Pure."""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

from pylaunch.base.dataclass import dataclass
from pylaunch.features.explain.judgement.indications.form import Excerpts, LogExcerpt, LogForm
from pylaunch.features.explain.judgement.indications.indication import Indication
from pylaunch.model.diagnosis.confidence import Confidence

IBSTAT = LogForm("ibstat", ("CA '",), re.compile(r"^CA '(?P<device>\w{1,40})'$"), follows=40)
IBSTATUS = LogForm(
    "ibstatus",
    ("Infiniband device '",),
    re.compile(r"^Infiniband device '(?P<device>\w{1,40})' port (?P<port>\d{1,3}) status:$"),
    follows=8,
)
DEVINFO = LogForm("ibv-devinfo", ("hca_id:",), re.compile(r"^hca_id:\s{1,10}(?P<device>\w{1,40})$"), follows=60)
INTERFACE = LogForm(
    "ip-brief",
    ("UP          ", "DOWN", "UNKNOWN        "),
    re.compile(
        r"^(?P<name>[a-z][\w.-]{0,30})(?:@\w{1,20})? {2,20}(?P<state>UP|DOWN|UNKNOWN)"
        r"(?: {2,20}(?P<addresses>[0-9a-fA-F.:]{2,45}/\d{1,3}(?: .{0,300})?))?\s{0,20}$"
    ),
)
INTERFACE_BLOCK = LogForm(
    "ip-or-ifconfig",
    (">  mtu ", "> mtu "),
    re.compile(
        r"^(?:\d{1,4}: )?(?P<name>[a-z][\w.-]{0,30})(?:@\w{1,20})?: (?:flags=\d{1,6})?"
        r"<(?P<flags>[A-Z_,-]{2,120})> {1,3}mtu "
    ),
    follows=8,
)
IFNAME = LogForm(
    "ifname",
    ("SOCKET_IFNAME",),
    re.compile(
        r"\b(?P<variable>(?:NCCL|GLOO|TP)_SOCKET_IFNAME)(?: set by environment to"
        r" |=)[\"']?(?P<value>[\w.,=^-]{1,200})"
    ),
)
FORMS = (IBSTAT, IBSTATUS, DEVINFO, INTERFACE, INTERFACE_BLOCK, IFNAME)

_FIELD = re.compile(r"^\s{0,20}(?P<name>[A-Za-z][A-Za-z _]{1,20}):\s{1,20}(?P<value>.{1,60}?)\s{0,20}$")
_PORT = re.compile(r"^\s{1,20}(?:Port (?P<number>\d{1,3}):|port:\s{1,10}(?P<number2>\d{1,3}))\s{0,20}$")
_RATE = re.compile(r"^\d{1,4}(?:\.\d)?")
_UNUSED = ("DISABLED", "SLEEP")
"""Physical states of a port that was switched off on purpose."""


@dataclass(frozen=True)
class LinkPort:
    """Port of an RDMA adapter."""

    device: str
    port: str
    state: str
    """As InfiniBand names it: ACTIVE, DOWN, INIT or ARMED."""

    physical: str
    """LINKUP, POLLING or DISABLED; "" if the table does not show it."""

    layer: str
    rate: float
    """Gb/s; 0 if the table does not show it."""

    excerpt: LogExcerpt
    at: int

    @property
    def is_active(self) -> bool:
        """True if the port carries traffic."""
        return self.state == "ACTIVE"

    @property
    def shown(self) -> str:
        """State in a verdict."""
        return self.state.capitalize() + (f" ({self.physical.capitalize()})" if self.physical else "")


def link_ports(excerpts: Excerpts) -> Iterator[LinkPort]:
    """Yield the ports that the tables show."""
    for table in (*excerpts.get(IBSTAT.id, ()), *excerpts.get(DEVINFO.id, ())):
        starts = [at for at, line in enumerate(table.lines) if _PORT.match(line)]
        ends = [at for at, line in enumerate(table.lines) if at and line[:1].strip()] + [len(table.lines)]
        for at, start in enumerate(starts):
            end = min([*starts[at + 1 : at + 2], *(each for each in ends if each > start)])
            if start < ends[0] and (found := _PORT.match(table.lines[start])):
                number = found["number"] or found["number2"]
                yield from _port(table, number, start, table.lines[start + 1 : end])
    for table in excerpts.get(IBSTATUS.id, ()):
        last = next((at for at, line in enumerate(table.lines) if at and line[:1].strip()), len(table.lines))
        yield from _port(table, table.groups["port"], 0, table.lines[1:last])


def _port(table: LogExcerpt, number: str, at: int, lines: Iterable[str]) -> Iterator[LinkPort]:
    named = {found["name"].lower().replace("_", " "): found["value"] for line in lines if (found := _FIELD.match(line))}
    if "state" not in named:
        return
    state, physical = (_state(named.get(name, "")) for name in ("state", "physical state"))
    physical = physical or _state(named.get("phys state", ""))
    rate = _RATE.match(named.get("rate", ""))
    layer = named.get("link layer", "")
    yield LinkPort(table.groups["device"], number, state, physical, layer, float(rate[0]) if rate else 0.0, table, at)


def _state(text: str) -> str:
    """Return a state as a word: "4: ACTIVE", "PORT_ACTIVE (4)" and "Active" are the same."""
    word = text.split(":")[-1].split("(")[0].strip().upper()
    return {"INITIALIZING": "INIT", "LINK_UP": "LINKUP"}.get(word.removeprefix("PORT_"), word.removeprefix("PORT_"))


@dataclass(frozen=True)
class Interface:
    """Network interface of a host."""

    name: str
    is_usable: bool
    """It is up and has an address."""

    excerpt: LogExcerpt


def interfaces(excerpts: Excerpts) -> Iterator[Interface]:
    """Yield the interfaces that `ip -br addr`, `ip addr` and ifconfig list."""
    for row in excerpts.get(INTERFACE.id, ()):
        yield Interface(row.groups["name"], row.groups["state"] != "DOWN" and "addresses" in row.groups, row)
    for block in excerpts.get(INTERFACE_BLOCK.id, ()):
        own = itertools.takewhile(lambda line: line[:1].isspace(), block.lines[1:])
        has_address = any(line.split()[:1] in (["inet"], ["inet6"]) for line in own)
        yield Interface(block.groups["name"], "UP" in block.groups["flags"].split(",") and has_address, block)


def read(excerpts: Excerpts) -> Iterator[Indication]:
    """Yield ports that are down among active ones, and interfaces that a variable names and a table does not have."""
    yield from _of_ports(list(link_ports(excerpts)))
    yield from _of_interfaces(list(interfaces(excerpts)), excerpts.get(IFNAME.id, ()))


def _of_ports(ports: list[LinkPort]) -> Iterator[Indication]:
    hosts: dict[tuple[str, str | None, str], list[LinkPort]] = {}
    for each in ports:
        hosts.setdefault((each.excerpt.file, each.excerpt.origin.host, each.layer), []).append(each)
    for group in hosts.values():
        active = [each for each in group if each.is_active]
        waiting = [each for each in group if not each.is_active and each.physical not in _UNUSED]
        for each in waiting:
            name = f"port {each.port} of {each.device} is {each.shown}"
            if each.state in ("INIT", "ARMED") and each.layer != "Ethernet":
                text = f"{name}: no subnet manager has configured it"
                yield Indication("ib-hardware", text, each.excerpt, each.at, Confidence.MEDIUM)
            elif not active:
                yield Indication("ib-hardware", name, each.excerpt, each.at)
            elif each.state == "DOWN":
                text = f"{name}, while {len(active)} of {len(group)} ports are Active"
                is_plain = each.physical == "POLLING" and len(active) > len(waiting)
                sure = Confidence.MEDIUM if is_plain else Confidence.LOW
                yield Indication("ib-hardware", text, each.excerpt, each.at, sure)
        if group and len(active) == len(group) > 1:
            text = f"all {len(group)} ports are Active"
            yield Indication("ib-hardware", text, group[0].excerpt, group[0].at, contradicts=True)


def _of_interfaces(listed: Sequence[Interface], variables: Iterable[LogExcerpt]) -> Iterator[Indication]:
    tables: dict[tuple[str, str | None], list[Interface]] = {}
    for each in listed:
        tables.setdefault(each.excerpt.place, []).append(each)
    for line in variables:
        variable, value = line.groups["variable"], line.groups["value"]
        names = [name for name in value.removeprefix("=").split(",") if name]
        if value.startswith("^") or not names:
            continue
        is_prefix = variable.startswith("NCCL") and not value.startswith("=")
        for (file, _), table in tables.items():
            if file != line.file or len(table) < 2 or all(each.name != "lo" for each in table):
                continue  # A part of a table does not show which interfaces a host has.
            found = [each for each in table if each.name in names or (is_prefix and each.name.startswith(tuple(names)))]
            if not found:
                text = f"{variable} is {value}, and the table of interfaces has none of that name"
                yield Indication("interface-missing", text, line, 0, Confidence.HIGH)
            elif not any(each.is_usable for each in found):
                text = f"{variable} is {value}, and {found[0].name} is down or has no address"
                yield Indication("interface-missing", text, found[0].excerpt, 0, Confidence.MEDIUM, others=(line,))
