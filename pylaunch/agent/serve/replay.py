"""Answer a controller from the files of a run that is over, with the messages that its supervisor would send."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time

from pylaunch.agent import wire
from pylaunch.agent.evidence.agent_end import what_ended_agent
from pylaunch.agent.logs import log_index
from pylaunch.agent.logs.tail import LogFollower
from pylaunch.agent.run import stop_request
from pylaunch.agent.serve.supervisor import hello
from pylaunch.agent.shared import record, run_lock, run_processes
from pylaunch.agent.shared.layout import SOCKETS, RunDirectory
from pylaunch.agent.wire import bounds

STREAM = re.compile(r"(?:launcher|\d{1,9})\.(?:out|err)\Z")


def replay(directory: RunDirectory, version: str) -> int:
    """Speak the protocol on stdin and stdout until everything is sent or the controller disconnects."""
    _remove_sockets(directory)
    _send(hello(directory.run, version, "finished", []))
    while True:
        line = sys.stdin.buffer.readline(wire.MAX_LINE)
        if not line:
            return 0
        message = bounds.checked(wire.decode(line))
        if isinstance(message, wire.Ping):
            _send(wire.Pong(message.serial, time.time()))
        elif isinstance(message, wire.Stop):
            if message.by_hand:
                stop_request.keep(directory, message.reason)
        elif isinstance(message, wire.Examine):
            _send(wire.Examined(message.serial, []))
        elif isinstance(message, wire.TryPeers):
            _send(wire.PeersTried({}))
        elif isinstance(message, wire.Notify):
            continue  # As the two above: the controller does not know of the end yet.
        elif isinstance(message, wire.Follow):
            _send_output(directory, message)
            _send_end(directory)
            return 0
        else:
            raise wire.WireError(f"run {directory.run} is over: {type(message).__name__} has no effect")


def _remove_sockets(directory: RunDirectory) -> None:
    """Remove the sockets of a supervisor that was killed."""
    held = run_lock.lock(directory)
    if held is None:
        return
    try:
        for name in SOCKETS:
            with contextlib.suppress(OSError):
                os.unlink(directory.file(name))
    finally:
        os.close(held)


def _send_output(directory: RunDirectory, follow: wire.Follow) -> None:
    for event in record.read_events(directory):
        if not isinstance(event, wire.Finished):
            _send(event)
    names = sorted(name for name in os.listdir(directory.logs) if STREAM.match(name))
    paths = {name: directory.stream(name) for name in names}
    since = log_index.begins(directory, paths, follow.since)
    follower = LogFollower(paths, follow, since=since)
    follower.dates = log_index.Dates(directory)
    while True:
        output = follower.next(ended=True)
        if output is None:
            break
        _send(output)
    _send(wire.CaughtUp())


def _send_end(directory: RunDirectory) -> None:
    finished = [event for event in record.read_events(directory) if isinstance(event, wire.Finished)]
    outcome = record.read_outcome(directory)
    if finished:
        _send(finished[-1])
    elif outcome is not None:
        _send(wire.Failed(f"run {directory.run} was {outcome.outcome} on this host: {outcome.message}"))
    else:
        _send(_without_report(directory))


def _without_report(directory: RunDirectory) -> wire.Failed:
    """Return the message about a run whose supervisor ended before the run did."""
    if run_processes.was_restarted(directory):
        return wire.Failed("the host was restarted during the run", wire.HOST_RESTARTED)
    known = what_ended_agent(directory)
    return wire.Failed(f"the agent of run {directory.run} ended without a report{f': {known}' if known else ''}")


def _send(message: object) -> None:
    sys.stdout.buffer.write(wire.encode(message))
    sys.stdout.buffer.flush()
