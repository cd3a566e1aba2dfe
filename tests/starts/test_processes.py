"""A process that leaves children behind, or does not read its input, neither blocks its caller nor makes noise."""

import asyncio
import signal
import subprocess

import pytest

from pylaunch.agent.shared import processes
from pylaunch.errors import PylaunchError
from pylaunch.transport import process

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


def test_a_stopped_child_is_ended_all_the_same() -> None:
    async def talk() -> int:
        child = await process.spawn(("/bin/sh", "-c", "echo $$; exec sleep 60"))
        pid = int(await child.readline())
        child.signal(signal.SIGSTOP)
        while processes.read(pid).state != "T":
            await asyncio.sleep(0.01)
        return (await child.end()).returncode

    assert asyncio.run(talk()) == -signal.SIGKILL
