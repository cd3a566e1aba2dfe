"""Set-up of the nodes beside each other: versions, NCCL's network and addresses, and its variables. Pure.

A node that uses InfiniBand and one that uses TCP wait for each other for ever (https://github.com/NVIDIA/nccl/issues/234).
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from pylaunch.features.explain.judgement.indications.form import Excerpts, LogExcerpt, LogForm
from pylaunch.features.explain.judgement.indications.indication import Indication
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.diagnosis.majority import majority
from pylaunch.model.hostset import fold
from pylaunch.verdict.logs.address import kind_of_address

_NUMBER = r"(?P<version>\d{1,4}\.\d{1,4}(?:\.\d{1,4})?(?:\+\w{1,12})?)"
VERSION = LogForm(
    "version",
    (
        "NCCL version ",
        "PyTorch version",
        "torch version",
        "torch==",
        "Python version",
        "jax==",
        "jaxlib==",
        "jax version",
    ),
    re.compile(rf"\b(?P<library>NCCL|PyTorch|torch|Python|jax|jaxlib)(?: version:? |==|: ){_NUMBER}(?![\w.])"),
)
NETWORK = LogForm(
    "nccl-network",
    ("Using network ",),
    re.compile(r"NCCL INFO (?:\w{1,20} : )?Using network (?P<network>\w[\w ]{0,30}?)$"),
)
BOOTSTRAP = LogForm(
    "nccl-address",
    ("Bootstrap : Using ", "Bootstrap: Using "),
    re.compile(
        r"NCCL INFO Bootstrap ?: Using"
        r" (?:\[\d{1,2}\])?(?P<interface>[\w.@-]{1,40}):(?P<address>[\w.:%]{1,64}?)<\d{1,5}>"
    ),
)
VARIABLE = LogForm(
    "nccl-variable",
    ("set by environment to ",),
    re.compile(r"NCCL INFO (?P<name>NCCL_\w{1,60}) set by environment to (?P<value>.{1,120}?)\.?$"),
)
FORMS = (VERSION, NETWORK, BOOTSTRAP, VARIABLE)

_LIBRARIES = {"torch": "PyTorch"}
_SURE = {"NCCL": Confidence.MEDIUM, "PyTorch": Confidence.MEDIUM, "jax": Confidence.MEDIUM, "jaxlib": Confidence.MEDIUM}
"""Libraries whose versions must be equal on all ranks; of others a difference alone names no cause."""

_OF_THE_HOST = re.compile(r"IFNAME|_HCA$|DEBUG|TOPO|_FILE$|HOSTID|_PLUGIN$|CPU|GID_INDEX|_PORT")
"""Variables that may differ between hosts."""

_PARTY = re.compile(
    r"^#? {0,4}(?P<party>(?:node|host|server|machine|rank|worker) ?[\w.-]{1,40}?)(?: \([^)]{1,60}\))?:\s"
)


def read(excerpts: Excerpts) -> Iterator[Indication]:
    """Yield differences between nodes that break or hang a run."""
    yield from _of_versions(excerpts.get(VERSION.id, ()))
    yield from _of_networks(excerpts.get(NETWORK.id, ()))
    yield from _of_addresses(excerpts.get(BOOTSTRAP.id, ()))
    yield from _of_variables(excerpts.get(VARIABLE.id, ()))


def _party_of(line: LogExcerpt) -> str:
    """Return the node or rank that a line is of; "" if nothing shows it."""
    if line.origin.host:
        return line.origin.host
    if found := _PARTY.match(line.lines[0]):
        return found["party"]
    return f"rank {line.origin.rank}" if line.origin.rank is not None else ""


def _answers(lines: Iterable[LogExcerpt], name: str) -> dict[str, dict[str, LogExcerpt]]:
    """Return the values of each party, with a line that shows each."""
    found: dict[str, dict[str, LogExcerpt]] = {}
    for line in lines:
        if party := _party_of(line):
            found.setdefault(party, {}).setdefault(line.groups[name].strip(), line)
    return found


def _single(answers: Mapping[str, Mapping[str, LogExcerpt]]) -> dict[str, str]:
    """Return the value of each party that has only one."""
    return {party: next(iter(values)) for party, values in answers.items() if len(values) == 1}


def _of_versions(lines: Iterable[LogExcerpt]) -> Iterator[Indication]:
    libraries: dict[str, list[LogExcerpt]] = {}
    for line in lines:
        library = line.groups["library"]
        libraries.setdefault(_LIBRARIES.get(library, library), []).append(line)
    for library, shown in libraries.items():
        answers = _answers(shown, "version")
        values = {
            party: value for party, value in _single(answers).items() if value.count(".") > 1 or library == "Python"
        }
        if len(set(values.values())) > 1:
            text = f"{library} has different versions: {_difference(values)}"
            yield _differing("version-skew", text, answers, values, _SURE.get(library))


def _of_networks(lines: Iterable[LogExcerpt]) -> Iterator[Indication]:
    answers = _answers(lines, "network")
    values = _single(answers)
    if len(set(values.values())) > 1:
        text = f"NCCL uses different networks: {_difference(values)}"
        yield _differing("rdma-devices", text, answers, values, Confidence.MEDIUM)


def _of_addresses(lines: Iterable[LogExcerpt]) -> Iterator[Indication]:
    answers = _answers(lines, "address")
    hosts: dict[str, list[str]] = {}
    for host, address in _single(answers).items():
        hosts.setdefault(address, []).append(host)
    for address, names in hosts.items():
        kind = kind_of_address(address)
        line = answers[names[0]][address]
        where = f"{line.groups['interface']}:{address}"
        if len(names) > 1:
            cause = "hosts-loopback" if kind == "loopback" else "network-interface"
            text = f"{fold(names)} all announce the address {where}"
            others = tuple(answers[name][address] for name in names[1:3])
            yield Indication(cause, text, line, 0, Confidence.HIGH, others=others)
        elif len(hosts) > 1 and kind in ("loopback", "bridge", "link-local"):
            cause = "hosts-loopback" if kind == "loopback" else "network-interface"
            yield Indication(
                cause, f"{names[0]} announces {where} ({kind}) to the other nodes", line, 0, Confidence.MEDIUM
            )


def _of_variables(lines: Iterable[LogExcerpt]) -> Iterator[Indication]:
    variables: dict[str, list[LogExcerpt]] = {}
    for line in lines:
        if not _OF_THE_HOST.search(line.groups["name"]):
            variables.setdefault(line.groups["name"], []).append(line)
    for name, shown in variables.items():
        answers = _answers(shown, "value")
        values = _single(answers)
        if len(set(values.values())) > 1:
            text = f"{name} differs: {_difference(values)}"
            yield _differing("env-nccl", text, answers, values, Confidence.MEDIUM)


def _difference(values: Mapping[str, str]) -> str:
    division = majority(values)
    groups = [*division.odd, *([(division.usual, division.usual_hosts)] if division.usual is not None else [])]
    return ", ".join(f"{value} on {_folded(names)}" for value, names in groups[:4])


def _folded(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:4]) if any(" " in name for name in listed) else fold(listed)


def _differing(
    cause: str,
    text: str,
    answers: Mapping[str, Mapping[str, LogExcerpt]],
    values: Mapping[str, str],
    sure: Confidence | None,
) -> Indication:
    """Return the indication; a majority of three at least makes the others the ones that differ."""
    division = majority(values)
    odd = [name for _, names in division.odd for name in names]
    shown = [answers[name][values[name]] for name in (*odd[:2], *division.usual_hosts[:1])]
    has_majority = len(division.usual_hosts) > 1
    ranks = tuple(
        sorted({line.origin.rank for name in odd for line in answers[name].values() if line.origin.rank is not None})
    )
    return Indication(cause, text, shown[0], 0, sure, ranks=ranks if has_majority else (), others=tuple(shown[1:]))
