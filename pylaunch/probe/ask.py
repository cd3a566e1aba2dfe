"""One process per host, over the connection that Ansible will use too: modules of the agent, piped into its Python."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from pylaunch.base import untrusted_json
from pylaunch.base.dataclass import dataclass
from pylaunch.base.untrusted_json import UntrustedJsonError
from pylaunch.errors import ClusterNotReadyError, PylaunchError
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.diagnosis import host_errors
from pylaunch.model.hostset import fold
from pylaunch.model.text.argv import Argv
from pylaunch.probe.answers import MALFORMED, quoted_answer, what_is_wrong
from pylaunch.probe.program import FROM_STDIN
from pylaunch.transport import interrupts
from pylaunch.transport.connections import connector_of, opening, why_not_reached
from pylaunch.transport.connector import ConnectionFailure, Connector
from pylaunch.transport.process import (
    Completed,
    ProgramNotFoundError,
    TimedOutError,
    communicate,
    describe_exit,
    hosts_at_once,
    last_line,
)

T = TypeVar("T")

TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Unreachable:
    """A host that could not be asked."""

    reason: str
    hint: str | None = None


def unreachable_error(unreachable: Mapping[str, Unreachable], cluster: Cluster) -> PylaunchError:
    """Return the error for hosts of `cluster` that could not be reached."""
    hints = host_errors.of_hosts({host: each.hint for host, each in unreachable.items()})
    reasons = {host: (each.reason,) for host, each in unreachable.items()}
    return ClusterNotReadyError(
        f"{len(unreachable)} of {len(cluster.hosts)} hosts cannot be reached: {fold(unreachable)}",
        evidence=[f"{hosts}  {reason}" for hosts, reason in host_errors.alike_errors(cluster.hosts, reasons)],
        hint="\n      ".join(hints) or None,
    )


@dataclass(frozen=True)
class NoPython:
    """A host that could be reached and has no interpreter at `path`: Ansible has to install it first."""

    path: str


Answered = Mapping[str, Any]
"""The JSON object that the program printed."""


def parted(
    answers: Mapping[str, Answered | Unreachable | NoPython], cluster: Cluster
) -> tuple[dict[str, Answered], dict[str, Unreachable]]:
    """Divide answers from unreachable hosts of `cluster`. A host without Python counts as unreachable."""
    answered, unreachable = {}, {}
    for name, answer in answers.items():
        match answer:
            case Unreachable():
                unreachable[name] = answer
            case NoPython():
                unreachable[name] = Unreachable(f"no Python at {answer.path}", host_errors.agent_python(cluster[name]))
            case _:
                answered[name] = answer
    return answered, unreachable


def ask(
    cluster: Cluster, programs: Mapping[str, bytes], timeout_s: float = TIMEOUT_S
) -> dict[str, Answered | Unreachable | NoPython]:
    """`gather_answers` for callers without an event loop; a signal ends it and raises KeyboardInterrupt."""
    return interrupts.run(gather_answers(cluster, programs, timeout_s))


async def gather_answers(
    cluster: Cluster, programs: Mapping[str, bytes], timeout_s: float = TIMEOUT_S
) -> dict[str, Answered | Unreachable | NoPython]:
    """Return the answer of each host of `cluster` to its own program (host → program), in rank order.

    Cancelling it ends the asking at once, also of a host that does not answer.
    """

    async def one(host: Host) -> Answered | Unreachable | NoPython:
        connector = connector_of(host, cluster.known_hosts)
        ended = await _run(connector, (host.agent_python, *FROM_STDIN), programs[host.name], timeout_s)
        return interpret(host, ended) if isinstance(ended, Completed) else ended

    return await _of_all(cluster, one)


def run_on_all(
    cluster: Cluster, words: Mapping[str, Argv], timeout_s: float = TIMEOUT_S
) -> dict[str, Completed | Unreachable]:
    """Run its own command on each host of `cluster`, as `ask` does, and return how each of them ended."""

    async def one(host: Host) -> Completed | Unreachable:
        ended = await _run(connector_of(host, cluster.known_hosts), words[host.name], b"", timeout_s)
        return Unreachable(f"no {ended.path}") if isinstance(ended, NoPython) else ended

    return interrupts.run(_of_all(cluster, one))


async def _of_all(cluster: Cluster, one: Callable[[Host], Coroutine[None, None, T]]) -> dict[str, T]:
    turns = asyncio.Semaphore(hosts_at_once(len(cluster.hosts)))

    async def in_turn(host: Host) -> T:
        async with turns:
            return await one(host)

    tasks = [asyncio.ensure_future(in_turn(host)) for host in cluster.hosts]
    try:
        return dict(zip(cluster.names, await asyncio.gather(*tasks), strict=True))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _run(connector: Connector, words: Argv, stdin: bytes, timeout_s: float) -> Completed | Unreachable | NoPython:
    try:
        async with opening(connector, timeout_s):
            ended = await communicate(connector.argv(words), stdin=stdin, timeout_s=timeout_s)
    except ProgramNotFoundError as error:
        return NoPython(error.program) if error.program == words[0] else Unreachable(error.message, error.hint)
    except TimedOutError:
        return _unreachable(connector.timed_out(timeout_s))
    except PylaunchError as error:
        return Unreachable(error.message, error.hint)
    failure = await why_not_reached(connector, ended)
    return ended if failure is None else _unreachable(failure)


def _unreachable(failure: ConnectionFailure) -> Unreachable:
    return Unreachable(failure.reason, failure.hint)


def interpret(host: Host, ended: Completed) -> Answered | Unreachable | NoPython:
    """Return what a probe that ran on `host` and ended reports."""
    if ended.returncode in (126, 127):
        return NoPython(host.agent_python)
    last = next((line for line in reversed(ended.stdout.splitlines()) if line.startswith("{")), None)
    if not ended.ok or last is None:
        return Unreachable(
            f"the probe failed ({describe_exit(ended.returncode)}): {last_line(ended.stderr or ended.stdout)}",
            f"{host.agent_python} of {host.name} must be Python 3.8 or newer, and its account must run the commands"
            " that it is given (no nologin shell, no ForceCommand)",
        )
    try:
        return untrusted_json.parse_object(last, len(last))
    except UntrustedJsonError as error:
        return _not_understood(f"{error}: {quoted_answer(last)}")


def understood(answered: Answered, reader: Callable[[Answered], T]) -> T | Unreachable:
    """Return the value that `reader` reads in one host's answer; Unreachable for a malformed answer."""
    try:
        return reader(answered)
    except MALFORMED as error:
        return _not_understood(what_is_wrong(error))


def _not_understood(why: str) -> Unreachable:
    return Unreachable(
        f"its answer to the probe is not understood ({why})", "another program answers in place of python3?"
    )


def understood_all(
    answers: Mapping[str, Answered | Unreachable | NoPython], cluster: Cluster, reader: Callable[[Answered], T]
) -> tuple[dict[str, T], dict[str, Unreachable]]:
    """Return the values that `reader` reads in all answers, and the hosts that were not reached or not understood."""
    readings: dict[str, T] = {}
    answered, failed = parted(answers, cluster)
    for name, answer in answered.items():
        reading = understood(answer, reader)
        if isinstance(reading, Unreachable):
            failed[name] = reading
        else:
            readings[name] = reading
    return readings, failed
