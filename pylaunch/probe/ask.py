"""One process per host, over the connection that Ansible will use too: modules of the agent, piped into its Python."""

import contextlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
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
from pylaunch.transport.connections import connector_of, handshake_turn
from pylaunch.transport.connector import LOGIN_TEST_TIMEOUT_S, ConnectionFailure, Connector
from pylaunch.transport.process import (
    Completed,
    ProgramNotFoundError,
    TimedOutError,
    Together,
    allow_hosts,
    describe_exit,
    last_line,
)
from pylaunch.transport.waiting import AWAITED

T = TypeVar("T")

CONCURRENT = 64
TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Unreachable:
    """A host that could not be asked."""

    reason: str
    hint: str | None = None
    evidence: tuple[str, ...] = ()
    """One line for each step to the host that was checked after the failure."""

    connection_failed: bool = False
    """The connection itself failed, so `transport.connections.diagnose_connections` can find out more."""


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


@dataclass(frozen=True)
class Asking:
    """Options of a request to hosts."""

    timeout_s: float = TIMEOUT_S
    together: Together | None = None
    """Group of the processes; a group of its own without one."""


PLAIN = Asking()

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
    cluster: Cluster,
    programs: Mapping[str, bytes],
    how: Asking = PLAIN,
) -> dict[str, Answered | Unreachable | NoPython]:
    """Return the answer of each host of `cluster` to its own program (host → program), in rank order.

    Ctrl-C, or the end of `how.together`, ends the asking at once, also of a host that does not answer.
    """

    def one(asking: Together, host: Host) -> Answered | Unreachable | NoPython:
        connector = connector_of(host, cluster.known_hosts)
        ended = _run(asking, connector, (host.agent_python, *FROM_STDIN), programs[host.name], how.timeout_s)
        answer = interpret(host, ended) if isinstance(ended, Completed) else ended
        if isinstance(ended, Completed) and isinstance(answer, Unreachable | NoPython):
            return _not_obeyed(asking, connector) or answer
        return answer

    return _of_all(cluster, one, how)


def run_on_all(cluster: Cluster, words: Mapping[str, Argv], how: Asking = PLAIN) -> dict[str, Completed | Unreachable]:
    """Run its own command on each host of `cluster`, as `ask` does, and return how each of them ended."""

    def one(asking: Together, host: Host) -> Completed | Unreachable:
        ended = _run(asking, connector_of(host, cluster.known_hosts), words[host.name], b"", how.timeout_s)
        return Unreachable(f"no {ended.path}") if isinstance(ended, NoPython) else ended

    return _of_all(cluster, one, how)


def _of_all(cluster: Cluster, one: Callable[[Together, Host], T], how: Asking) -> dict[str, T]:
    if not cluster.hosts:
        return {}
    workers = min(CONCURRENT, len(cluster.hosts))
    allow_hosts(workers)
    # In this order: the pool waits for its threads, which end when their processes do.
    with ThreadPoolExecutor(workers) as pool, how.together or Together() as asking:
        futures = {host.name: pool.submit(one, asking, host) for host in cluster.hosts}
        return {name: future.result() for name, future in futures.items()}


def _run(
    asking: Together, connector: Connector, words: Argv, stdin: bytes, timeout_s: float
) -> Completed | Unreachable | NoPython:
    host = connector.host
    try:
        with handshake_turn(connector, asking), AWAITED.hosts([host.name], timeout_s):
            ended = asking.run(connector.argv(words), stdin=stdin, timeout_s=timeout_s)
    except ProgramNotFoundError as error:
        return NoPython(error.program) if error.program == words[0] else Unreachable(error.message, error.hint)
    except TimedOutError:
        silence = connector.timed_out(timeout_s)
        return _unreachable(silence, connection_failed=not silence.host_answers)
    except PylaunchError as error:
        return Unreachable(error.message, error.hint)
    if (failure := connector.failure(ended)) is not None:
        if failure.again:
            with contextlib.suppress(PylaunchError):
                again = asking.run(failure.again, stdin=b"", timeout_s=LOGIN_TEST_TIMEOUT_S)
                failure = connector.failure(again) or failure
        return _unreachable(failure, connection_failed=True)
    return ended


def _not_obeyed(asking: Together, connector: Connector) -> Unreachable | None:
    """Return why the host does not run commands, where that explains the missing answer."""
    test = connector.login_test()
    if test is None:
        return None
    try:
        ended = asking.run(test.argv, stdin=b"", timeout_s=LOGIN_TEST_TIMEOUT_S)
    except PylaunchError:
        return None
    failure = test.failure(ended)
    return None if failure is None else _unreachable(failure)


def _unreachable(failure: ConnectionFailure, *, connection_failed: bool = False) -> Unreachable:
    return Unreachable(failure.reason, failure.hint, connection_failed=connection_failed)


def interpret(host: Host, ended: Completed) -> Answered | Unreachable | NoPython:
    """Return what a probe that ran on `host` and ended reports."""
    if ended.returncode in (126, 127):
        return NoPython(host.agent_python)
    last = next((line for line in reversed(ended.stdout.splitlines()) if line.startswith("{")), None)
    if not ended.ok or last is None:
        return Unreachable(
            f"the probe failed ({describe_exit(ended.returncode)}): {last_line(ended.stderr or ended.stdout)}",
            f"{host.agent_python} of {host.name} must be Python 3.8 or newer",
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
