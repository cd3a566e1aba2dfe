"""Answer a controller from the files of a run that is over, with the messages that its supervisor would send."""

import os
import re
import sys
import time

from pylaunch import protocol
from pylaunch.agent.evidence import kernel_messages
from pylaunch.agent.logs import log_index
from pylaunch.agent.logs.tail import LogFollower, last_lines
from pylaunch.agent.run import stop_request
from pylaunch.agent.serve.supervisor import hello
from pylaunch.agent.shared import processes, rank_files, record, run_lock, run_processes
from pylaunch.base import kernel_log
from pylaunch.base.layout import SOCKETS, RunDirectory

STREAM = re.compile(r"(?:launcher|\d{1,9})\.(?:out|err)\Z")


def replay(directory: RunDirectory, version: str) -> int:
    """Speak the protocol on stdin and stdout until everything is sent or the controller disconnects."""
    _remove_sockets(directory)
    task = record.read_task(directory)
    _send(hello(directory.run, version, "finished", [], "" if task is None else task.host))
    while True:
        line = sys.stdin.buffer.readline(protocol.MAX_LINE)
        if not line:
            return 0
        message = protocol.decode(line)
        if isinstance(message, protocol.Ping):
            _send(protocol.Pong(message.serial, time.time()))
        elif isinstance(message, protocol.Stop):
            if message.by_hand:
                stop_request.keep(directory, message.reason)
        elif isinstance(message, protocol.Examine):
            _send(protocol.Examined(message.serial, []))
        elif isinstance(message, protocol.TryPeers):
            _send(protocol.PeersTried({}))  # As the one above: the controller does not know of the end yet.
        elif isinstance(message, protocol.Follow):
            _send_output(directory, message)
            _send_end(directory)
            return 0
        else:
            raise protocol.WireError(f"run {directory.run} is over: {type(message).__name__} has no effect")


def _remove_sockets(directory: RunDirectory) -> None:
    """Remove the sockets of a supervisor that was killed."""
    held = run_lock.lock(directory)
    if held is None:
        return
    try:
        for name in SOCKETS:
            rank_files.remove(directory.file(name))
    finally:
        os.close(held)


def _send_output(directory: RunDirectory, follow: protocol.Follow) -> None:
    for event in record.read_events(directory):
        if not isinstance(event, protocol.Finished):
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
    _send(protocol.CaughtUp())


def _send_end(directory: RunDirectory) -> None:
    finished = [event for event in record.read_events(directory) if isinstance(event, protocol.Finished)]
    outcome = record.read_outcome(directory)
    if finished:
        _send(finished[-1])
    elif outcome is not None:
        _send(protocol.Failed(f"run {directory.run} was {outcome.outcome} on this host: {outcome.message}"))
    else:
        _send(_without_report(directory))


def _without_report(directory: RunDirectory) -> protocol.Failed:
    """Return the message about a run whose supervisor ended before the run did."""
    if run_processes.was_restarted(directory):
        return protocol.Failed(f"it was restarted during the run{_since()}", protocol.HOST_RESTARTED)
    known = what_ended_agent(directory)
    return protocol.Failed(f"the agent of run {directory.run} ended without a report{f': {known}' if known else ''}")


def _since() -> str:
    """Return a clause with the time of the first process of this host; "" where other users are hidden."""
    try:
        booted = processes.start_time(processes.read(1))
    except OSError:
        return ""
    return time.strftime(": up since %Y-%m-%d %H:%M:%S %z", time.localtime(booted))


def _send(message: object) -> None:
    sys.stdout.buffer.write(protocol.encode(message))
    sys.stdout.buffer.flush()


SLACK_S = 60.0
"""Tolerated drift between timestamps of the kernel log and the clock. Older messages may be about another process."""

_BY_KERNEL = {
    kernel_log.OOM_KILL: "the kernel killed it for lack of memory",
    kernel_log.SEGFAULT: "it crashed with a segmentation fault",
}


def what_ended_agent(directory: RunDirectory) -> str:
    """Return a clause about the end of the run's agent; "" where nothing shows it, as after a `kill -9`."""
    holder = run_lock.last_holder(directory)
    if holder is not None:
        since = time.clock_gettime(time.CLOCK_MONOTONIC) - (time.time() - holder.since) - SLACK_S
        for line in reversed(kernel_messages.about(holder.pid, since)):
            if line.kind in _BY_KERNEL:
                return _BY_KERNEL[line.kind]
    lines = last_lines(directory.file("agent.log"))
    return f"it crashed: {lines[-1]}" if any(line.startswith("Traceback ") for line in lines) else ""
