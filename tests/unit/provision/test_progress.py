from pylaunch.cli.views.tasks import TaskFollower
from pylaunch.transport.runner import Progress, TaskStatus


def step(host: str, task: str, status: TaskStatus) -> Progress:
    return Progress(host, "role", task, status)


def test_a_task_is_reported_when_the_next_one_starts() -> None:
    follower = TaskFollower()
    for host in ("n1", "n2"):
        assert follower.add(step(host, "Write files", TaskStatus.STARTED), 100.0) is None
    follower.add(step("n1", "Write files", TaskStatus.CHANGED), 103.0)
    assert follower.current is not None
    assert follower.current.running == "role: Write files: 1 of 2 hosts, waiting for n2"
    follower.add(step("n2", "Write files", TaskStatus.FAILED), 131.0)
    ended = follower.add(step("n1", "Start services", TaskStatus.STARTED), 140.0)
    assert ended is not None
    assert ended.report == "role: Write files: changed on n1, failed on n2 in 31 s"


def test_a_task_that_changed_nothing_is_not_worth_a_line() -> None:
    follower = TaskFollower()
    follower.add(step("n1", "Look", TaskStatus.STARTED), 1.0)
    follower.add(step("n1", "Look", TaskStatus.OK), 2.0)
    assert follower.current is not None
    assert follower.current.report is None


def test_a_change_in_check_mode_is_not_reported_as_made() -> None:
    follower = TaskFollower(is_check=True)
    follower.add(step("n1", "Remove files", TaskStatus.CHANGED), 1.0)
    assert follower.current is not None
    assert follower.current.report == "role: Remove files: would change on n1"
