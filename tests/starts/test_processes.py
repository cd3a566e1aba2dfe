"""A process that leaves children behind, or does not read its input, neither blocks its caller nor makes noise."""

import asyncio
import logging
import re
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from pylaunch.agent.shared import processes
from pylaunch.errors import ExitCode, PylaunchError
from pylaunch.transport import process
from pylaunch.transport.background import Background
from tests.starts.cluster import DirectoryCluster, ended

LEAVES_A_DAEMON = ("/bin/sh", "-c", "setsid sleep 600 & echo $!; echo error >&2; exit 3")


def end(pid: str) -> None:
    subprocess.run(["kill", "-KILL", pid.strip()], check=True)


def test_a_process_has_ended_though_what_it_left_behind_keeps_its_pipes() -> None:
    ended = process.run(LEAVES_A_DAEMON, timeout_s=60)
    end(ended.stdout)
    assert (ended.returncode, ended.stderr) == (3, "error\n")


def test_input_and_output_of_any_size_pass_through() -> None:
    output = b"0123456789abcdef" * 100_000
    assert process.run(("cat",), stdin=output, timeout_s=60).stdout.encode() == output
    assert process.run(("true",), stdin=output, timeout_s=60).ok
    with pytest.raises(PylaunchError, match=r"no end after 0\.2 s: sleep 60"):
        process.run(("sleep", "60"), timeout_s=0.2)


NOISE = f"""
import asyncio, gc
from pylaunch.transport import process
from pylaunch.transport.background import Background

async def talk():
    asyncio.get_running_loop().slow_callback_duration = 600.0  # A busy machine is slow, and warns of that.
    child = await process.spawn({LEAVES_A_DAEMON!r})
    pid = await child.readline()
    first, second = await asyncio.gather(child.wait(), child.leave(60))
    assert first is second and first.returncode == 3
    for _ in range(20):
        try:
            await child.send(b"nobody reads this")
        except ConnectionError:
            continue
        raise SystemExit("it went through")
    return pid.decode()

print(asyncio.run(talk()))
gc.collect()
"""


def test_a_background_process_that_a_second_interrupt_ends_has_the_exit_code_of_an_interrupt() -> None:
    with subprocess.Popen(("/bin/sh", "-c", "kill -INT $$")) as child:
        assert Background(child.pid, -1).exit_code() == ExitCode.INTERRUPTED


def test_a_child_that_has_ended_makes_no_noise() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", NOISE], capture_output=True, text=True, timeout=60, check=False
    )
    end(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")


def test_who_does_not_read_is_written_to_without_noise(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "OBEYS_S", 60.0)

    async def talk() -> int:
        child = await process.spawn(("/bin/sh", "-c", "exec 0<&-; echo deaf; sleep 60"))
        await child.readline()
        refused = 0
        for _ in range(20):
            try:
                await child.send(b"x" * 1000)
            except ConnectionError:
                refused += 1
            await asyncio.sleep(0)
        assert (await child.end()).returncode == -15
        return refused

    with caplog.at_level(logging.WARNING):
        assert asyncio.run(talk()) > 0
    assert caplog.records == []


def test_a_stopped_child_is_ended_all_the_same() -> None:
    async def talk() -> int:
        child = await process.spawn(("/bin/sh", "-c", "echo $$; exec sleep 60"))
        pid = int(await child.readline())
        child.signal(signal.SIGSTOP)
        while processes.read(pid).state != "T":
            await asyncio.sleep(0.01)
        return (await child.end()).returncode

    assert asyncio.run(talk()) == -signal.SIGKILL


def test_a_start_makes_no_noise_about_nodes_whose_ranks_end_long_before_the_others(
    directories: Callable[..., DirectoryCluster],
) -> None:
    cluster = directories(*(f"n{number}" for number in range(1, 6)))
    # Longer than it takes asyncio to complain of a pipe that nobody reads: five words, one a second.
    start = ended(cluster.start("--no-check", "--", "sh", "-c", "[ $PYLAUNCH_NODE_RANK = 4 ] && sleep 7; true"), code=0)
    assert not re.search("pipe|socket|asyncio|Traceback|Exception|loop", start.stderr), start.stderr
