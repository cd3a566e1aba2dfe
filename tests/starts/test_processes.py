"""A process that leaves children behind, or does not read its input, neither blocks its caller nor makes noise."""

import asyncio
import signal
import subprocess
from pathlib import Path

import pytest

from pylaunch.agent.shared import processes
from pylaunch.errors import PylaunchError
from pylaunch.transport import process
from tests.waiting import wait_until

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


def test_a_process_whose_start_is_cancelled_has_ended() -> None:
    started: list[int] = []

    async def cancelled() -> None:
        work = asyncio.ensure_future(process.communicate(("sleep", "600")))
        await asyncio.sleep(0)  # It has a process, and no `Child` yet.
        started.extend(each.pid for each in process._running)
        work.cancel()
        await asyncio.wait({work})
        assert work.cancelled()

    asyncio.run(cancelled())
    assert len(started) == 1
    assert process.ends(started[0], 0.0)


def test_a_stopped_child_is_ended_all_the_same() -> None:
    async def talk() -> int:
        child = await process.spawn(("/bin/sh", "-c", "echo $$; exec sleep 60"))
        pid = int(await child.readline())
        child.signal(signal.SIGSTOP)
        while processes.read(pid).state != "T":
            await asyncio.sleep(0.01)
        return (await child.end()).returncode

    assert asyncio.run(talk()) == -signal.SIGKILL


def test_a_cell_of_a_notebook_which_is_in_an_event_loop_can_run_a_process() -> None:
    async def cell() -> str:
        return process.run(("echo", "up"), timeout_s=60).stdout

    assert asyncio.run(cell()) == "up\n"


def test_a_cancelled_process_has_ended_with_its_children(tmp_path: Path) -> None:
    note = tmp_path / "pids"

    async def cancelled() -> None:
        script = f"sleep 600 & echo $$ $! > {note}.part; mv {note}.part {note}; wait"
        work = asyncio.ensure_future(process.communicate(("/bin/sh", "-c", script)))
        while not note.exists():
            await asyncio.sleep(0.01)
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)

    asyncio.run(cancelled())
    shell, child = map(int, note.read_text().split())
    assert not Path(f"/proc/{shell}").exists()
    wait_until(lambda: not Path(f"/proc/{child}").exists() or processes.read(child).state == "Z", "its child ends")
