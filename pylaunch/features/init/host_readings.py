"""Questions to hosts about what an inventory needs: one to all of them over SSH, then one about their routes."""

from collections.abc import Mapping, Sequence
from typing import Any

from pylaunch.agent.probe.readers.devices import gpu
from pylaunch.agent.probe.readers.hosts import network, python_env, reach
from pylaunch.features.init.choices import FoundHost, FoundRoute
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.hostset import is_address
from pylaunch.model.text.sanitise import visible_line
from pylaunch.probe.answers import Unmeasured, value, values
from pylaunch.probe.ask import Unreachable, ask, understood_all
from pylaunch.probe.program import probe
from pylaunch.protocol.readings.hosts import HostIdentity

FRAMEWORKS = ("torch", "jax")
"""Distributions whose presence makes an interpreter one for ranks."""

LONGEST_NAME = 100
"""Characters of a text of a host that are kept."""

_UNKNOWN = HostIdentity(hostname="", system="", addresses=[], network="")


def examine(cluster: Cluster, pythons: Sequence[str]) -> tuple[dict[str, FoundHost], dict[str, Unreachable]]:
    """Ask every host for its names, devices, and frameworks beside `pythons`.

    Returns those that answered, by name, and the reasons of the others.
    """
    questions: dict[str, Any] = {
        **reach.identity.ask(None),
        **reach.names.ask([host.address for host in cluster.hosts if not is_address(host.address)]),
        **gpu.host.ask(None),
        **gpu.management.ask(None),
    }
    for each in pythons:
        questions |= python_env.libraries.ask(each, each)
    readings_of, unreachable = _asked(cluster, dict.fromkeys(cluster.names, questions))
    return {name: _found(cluster[name], taken, pythons) for name, taken in readings_of.items()}, unreachable


def routes(cluster: Cluster) -> dict[str, tuple[FoundRoute, ...]]:
    """Return the routes of each host to the rank addresses of the others; () where they could not be read."""
    questions = {
        host.name: network.routes.ask([each.rank_address for each in cluster.hosts if each is not host])
        for host in cluster.hosts
    }
    answered, _ = _asked(cluster, questions)
    return {host.name: _routes(answered.get(host.name, {})) for host in cluster.hosts}


def _asked(
    cluster: Cluster, questions: Mapping[str, Mapping[str, Any]]
) -> tuple[dict[str, dict[str, Any]], dict[str, Unreachable]]:
    programs = {name: probe(asked) for name, asked in questions.items()}
    # Without a host that answers, there may be no question either.
    return understood_all(
        ask(cluster, programs), cluster, lambda answered: values(answered, next(iter(questions.values())))
    )


def _routes(taken: Mapping[str, Any]) -> tuple[FoundRoute, ...]:
    if not taken:
        return ()
    ways = value(taken, network.routes)
    if isinstance(ways, Unmeasured):
        return ()
    return tuple(
        FoundRoute(peer, _short(way.get("interface") or ""), _short(way.get("why", ""))) for peer, way in ways.items()
    )


def _found(host: Host, taken: Mapping[str, Any], pythons: Sequence[str]) -> FoundHost:
    identity, names = value(taken, reach.identity), value(taken, reach.names)
    devices, smi = value(taken, gpu.host), value(taken, gpu.management)
    frameworks = {}
    for each in pythons:
        installed = taken[f"{python_env.libraries}#{each}"]
        if not isinstance(installed, Unmeasured) and installed is not None:
            versions = installed["distributions"]
            frameworks[each] = tuple(f"{name} {_short(versions[name])}" for name in FRAMEWORKS if name in versions)
    cards = [] if isinstance(smi, Unmeasured) or smi is None else [_short(each["name"] or "") for each in smi["cards"]]
    if isinstance(identity, Unmeasured):
        identity = _UNKNOWN
    return FoundHost(
        host,
        hostname=_short(identity["hostname"]),
        network=identity["network"],
        addresses=tuple(identity["addresses"]),
        resolves={} if isinstance(names, Unmeasured) else {name: tuple(each or ()) for name, each in names.items()},
        system=_short(identity["system"]),
        gpus=None if isinstance(devices, Unmeasured) else (devices["gpus"] if devices is not None else 0),
        cards=tuple(cards),
        frameworks=frameworks,
    )


def _short(text: str) -> str:
    """Return a text of a host as one safe line."""
    return visible_line(text)[:LONGEST_NAME]
