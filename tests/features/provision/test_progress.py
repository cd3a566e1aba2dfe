import pytest

from pylaunch.features.provision.view import TaskLines
from pylaunch.transport.runner import Progress, TaskStatus


def step(host: str, task: str, status: TaskStatus) -> Progress:
    return Progress(host, "role", task, status)


def test_a_task_is_reported_when_the_next_one_starts(capsys: pytest.CaptureFixture[str]) -> None:
    running: list[str] = []
    tasks = TaskLines(running.append)
    for host in ("n1", "n2"):
        tasks.add(step(host, "Write files", TaskStatus.STARTED), 100.0)
    tasks.add(step("n1", "Write files", TaskStatus.CHANGED), 103.0)
    assert running[-1] == "role: Write files: 1 of 2 hosts, waiting for n2"
    tasks.add(step("n2", "Write files", TaskStatus.FAILED), 131.0)
    assert not capsys.readouterr().err
    tasks.add(step("n1", "Start services", TaskStatus.STARTED), 140.0)
    assert capsys.readouterr().err == "  role: Write files: changed on n1, failed on n2 in 31 s\n"


def test_a_task_that_changed_nothing_is_not_worth_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    tasks = TaskLines()
    tasks.add(step("n1", "Look", TaskStatus.STARTED), 1.0)
    tasks.add(step("n1", "Look", TaskStatus.OK), 2.0)
    tasks.end()
    assert not capsys.readouterr().err


def test_a_change_in_check_mode_is_not_reported_as_made(capsys: pytest.CaptureFixture[str]) -> None:
    tasks = TaskLines(is_check=True)
    tasks.add(step("n1", "Remove files", TaskStatus.CHANGED), 1.0)
    tasks.end()
    assert capsys.readouterr().err == "  role: Remove files: would change on n1\n"
