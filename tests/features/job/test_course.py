from typing import Any

import pytest

from pylaunch.features.job.course import (
    AttemptFailed,
    Course,
    CourseEvent,
    Interrupt,
    LetGo,
    PartEnded,
    PartFailing,
    PartPrepared,
    PartReleased,
    Phase,
    ReadinessSeen,
    StopPart,
)
from pylaunch.features.job.job_file import JobRole, ReadyTest
from pylaunch.model.outcome import Status

AT = 1000.0
READY = ReadyTest("http", "http", "/health")


def role(name: str, **given: Any) -> JobRole:
    return JobRole(**{"name": name, "program": ("x",), "options": {}, **given})


SERVER = role("server", ready=READY, ready_timeout=60.0, service=True)
TRAINER = role("trainer", after=("server",))


class Job:
    """A course whose clock the test moves."""

    def __init__(self, **roles: JobRole) -> None:
        self.course = Course(roles, 0.0)
        self.now = 0.0

    def does(self, *events: CourseEvent) -> list[object]:
        """Return the actions that follow `events`."""
        done: list[object] = []
        for event in events:
            self.course.hear(event, self.now, 1000.0 + self.now)
            done += self.course.decide(self.now, 1000.0 + self.now)
        return done

    def runs(self) -> "Job":
        """All parts have started, services are ready."""
        for name in self.course.parts:
            self.does(PartPrepared(name))
        for name in self.course.parts:
            self.does(PartReleased(name, AT), ReadinessSeen(name, is_ready=True, why=""))
        return self

    @property
    def ended(self) -> tuple[Status, str] | None:
        ending = self.course.ending
        return None if ending is None else (ending.status, ending.reason)


def test_no_rank_starts_before_all_parts_are_prepared_and_those_without_an_order_start_together() -> None:
    job = Job(a=role("a"), b=role("b"))
    assert job.does(PartPrepared("a")) == []
    assert job.does(PartPrepared("b")) == [LetGo(("a", "b"))]


def test_a_role_waits_until_all_replicas_of_the_one_before_are_ready() -> None:
    job = Job(**{"server.0": SERVER, "server.1": SERVER, "trainer": TRAINER})
    job.does(PartPrepared("server.0"), PartPrepared("server.1"), PartPrepared("trainer"))
    released = (PartReleased("server.0", AT), PartReleased("server.1", AT))
    assert job.does(*released, ReadinessSeen("server.0", is_ready=True, why="")) == []
    assert job.does(ReadinessSeen("server.1", is_ready=False, why="refused")) == []
    assert job.does(ReadinessSeen("server.1", is_ready=True, why="status 200")) == [LetGo(("trainer",))]


def test_a_role_that_is_not_ready_in_time_ends_the_job_with_what_was_seen_last() -> None:
    job = Job(server=SERVER, trainer=TRAINER)
    job.does(PartPrepared("server"), PartPrepared("trainer"), PartReleased("server", AT))
    job.does(ReadinessSeen("server", is_ready=False, why="connection refused"))
    job.now = job.course.deadline() or 0.0
    assert job.course.decide(job.now, 0.0) == [
        StopPart("trainer", "server was not ready (http:http/health) within 60 s"),
    ]
    assert job.course.ending is not None
    assert job.course.ending.detail == "connection refused"
    # The service stops when nobody is left that uses it.
    assert job.does(PartEnded("trainer", Status.STOPPED, "")) == [
        StopPart("server", "server was not ready (http:http/health) within 60 s")
    ]


def test_the_job_is_done_when_all_roles_but_the_services_are_and_these_are_stopped_then() -> None:
    job = Job(server=SERVER, trainer=TRAINER).runs()
    assert job.does(PartEnded("trainer", Status.DONE, "")) == [StopPart("server", "trainer done")]
    job.does(PartEnded("server", Status.STOPPED, ""))
    assert job.course.is_over
    assert job.ended == (Status.DONE, "trainer done")


@pytest.mark.parametrize(
    ("end", "ended"),
    [
        (PartEnded("server", Status.DONE, ""), (Status.FAILED, "server ended, and it is a service")),
        (PartEnded("server", Status.STOPPED, "stopped by ann"), (Status.STOPPED, "server was stopped")),
    ],
)
def test_a_service_that_ends_by_itself_has_failed_and_a_person_may_stop_it(
    end: PartEnded, ended: tuple[Status, str]
) -> None:
    job = Job(server=SERVER, trainer=TRAINER).runs()
    assert job.does(end) == [StopPart("trainer", ended[1])]
    assert job.ended == ended


def test_a_role_whose_server_has_ended_before_it_was_ready_does_not_start() -> None:
    job = Job(server=role("server", ready=READY), trainer=TRAINER)
    job.does(PartPrepared("server"), PartPrepared("trainer"), PartReleased("server", AT))
    assert job.does(PartEnded("server", Status.DONE, "")) == [
        StopPart("trainer", "trainer waits for server, which has ended")
    ]


def test_a_part_that_restarts_waits_until_the_server_that_restarts_is_ready_again() -> None:
    job = Job(server=SERVER, trainer=TRAINER).runs()
    assert job.does(PartFailing("server"), PartFailing("trainer"), PartPrepared("trainer")) == []
    assert job.does(PartPrepared("server")) == [LetGo(("server",))]
    assert job.course.parts["server"].phase is Phase.STARTING
    assert job.does(PartReleased("server", AT)) == []
    assert job.does(ReadinessSeen("server", is_ready=True, why="")) == [LetGo(("trainer",))]


def test_a_refusal_ends_the_job_before_any_rank_starts() -> None:
    job = Job(a=role("a"), b=role("b"))
    assert job.does(PartEnded("a", Status.REFUSED, "no disk")) == [StopPart("b", "a was not started")]
    assert job.ended == (Status.REFUSED, "a was not started")
    assert job.does(PartPrepared("b")) == []


def test_an_interrupt_stops_users_before_services_and_a_second_one_kills_all() -> None:
    job = Job(server=SERVER, trainer=TRAINER).runs()
    assert job.does(Interrupt("interrupted")) == [StopPart("trainer", "interrupted")]
    assert job.does(Interrupt("interrupted")) == [
        StopPart("server", "interrupted", is_kill=True), StopPart("trainer", "interrupted", is_kill=True),
    ]  # fmt: skip
    assert job.does(Interrupt("interrupted")) == []
    assert job.ended == (Status.STOPPED, "interrupted")


def failed(part: str, at: float, **given: bool) -> AttemptFailed:
    return AttemptFailed(part, part, 1000.0 + at, f"{part} at {at}", **given)


def first(*failures: AttemptFailed, by: str) -> list[str]:
    job = Job(server=SERVER, trainer=TRAINER).runs()
    job.now = 100.0
    job.does(*failures, PartEnded(by, Status.FAILED, ""))
    return [each.text for each in job.course.first_failures()]


def test_a_part_that_lost_the_connection_to_a_failed_one_is_a_victim() -> None:
    lost = failed("trainer", 90.0, lost_connection=True)
    assert first(lost, failed("server", 90.1), by="trainer") == ["server at 90.1"]
    assert first(lost, by="trainer") == ["trainer at 90.0"]
    # A server that lost a connection does not use the trainer: it is the cause.
    assert first(failed("server", 90.0, lost_connection=True), failed("trainer", 95.0), by="server") == [
        "server at 90.0"
    ]
