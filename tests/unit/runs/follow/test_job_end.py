"""The end of a Slurm job: what Slurm says about it decides what became of its nodes."""

import asyncio
import time

import pytest

from pylaunch import protocol
from pylaunch.errors import ClusterNotReadyError
from pylaunch.model.cluster import Cluster, Connection, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.plan import plan_run
from pylaunch.model.run import Event, EventKind
from pylaunch.model.slurm_job import JobState, end_of_job, ended_job
from pylaunch.runs.connect.bounds import ConnectionEnded, Lost, Reconnected
from pylaunch.runs.connect.fleet import Fleet
from pylaunch.runs.follow import job_end
from pylaunch.runs.follow.job_end import JobAnswer, JobQuestions
from pylaunch.runs.follow.run_follower import RunFollower
from pylaunch.transport.slurm import commands
from tests.unit.runs.follow.test_run_follower import Listener
from tests.unit.runs.messages import arrive

HOSTS = tuple(Host(name, f"10.0.0.{name[1:]}", Connection.SLURM, slurm_job="7") for name in ("n1", "n2", "n3"))
PLAN = plan_run(Cluster(HOSTS), JobSpec(("true",), Framework.COMMAND, "/tmp"), "7f3a9c01")
CLOSED = ConnectionEnded("the agent closed the connection")


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_end, "POLL_S", 0.001)
    monkeypatch.setattr(job_end, "ENDING_S", 0.005)


class Slurm:
    """Reports these states one after another, the last one for ever; "" is no answer."""

    def __init__(self, *states: str) -> None:
        self.states = list(states)
        self.asked = 0

    def state_of(self, job: str) -> JobState:
        assert job == "7"
        self.asked += 1
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        if not state:
            raise ClusterNotReadyError("squeue: Unable to contact slurm controller")
        return JobState(state)


def answers(slurm: Slurm) -> list[JobAnswer]:
    """The answers about the job of three nodes whose connections end."""
    heard: list[JobAnswer] = []

    def post(message: object) -> None:
        assert isinstance(message, JobAnswer)
        heard.append(message)

    async def ask() -> None:
        questions = JobQuestions(PLAN, slurm.state_of, post)
        assert all(questions.ask(host.name) for host in HOSTS)
        while not heard or heard[-1].is_ending:
            await asyncio.sleep(0.001)

    asyncio.run(ask())
    return heard


def test_slurm_is_asked_once_for_all_nodes_of_a_job_and_until_it_has_ended() -> None:
    slurm = Slurm("CANCELLED")
    (answer,) = answers(slurm)
    assert (answer.end, answer.is_cancelled, slurm.asked) == ("Slurm job 7 was cancelled (scancel)", True, 1)
    assert answer.at < time.time() - 1.0
    first, last = answers(Slurm("COMPLETING", "COMPLETING", "", "CANCELLED"))
    assert (first.is_ending, first.end, last.is_cancelled) == (True, "", True)


@pytest.mark.parametrize(
    ("states", "end"),
    [
        (("RUNNING",), ""),
        (("",), ""),
        (("TIMEOUT",), end_of_job("7")),
        (("COMPLETING",), end_of_job("7")),
        (("COMPLETING", "RUNNING"), end_of_job("7")),
    ],
)
def test_only_a_cancelled_job_was_ended_by_a_person(states: tuple[str, ...], end: str) -> None:
    answer = answers(Slurm(*states))[-1]
    assert (answer.end, answer.is_cancelled) == (end, False)
    assert ended_job(end) == (end and "7")


def followed(slurm: Slurm, monkeypatch: pytest.MonkeyPatch, *messages: tuple[str, object]) -> tuple[Outcome, Listener]:
    """Outcome of a run whose nodes send `messages`, while Slurm reports the states of `slurm`."""
    monkeypatch.setattr(commands, "job_state", slurm.state_of)
    listener = Listener()

    async def follow() -> Outcome:
        fleet = Fleet(PLAN, "0123")
        follower = RunFollower(PLAN, fleet, listener, streams=[])
        for rank, host in enumerate(PLAN.cluster.names):
            arrive(fleet, (host, protocol.RankStarted(rank, 7, 1.0)))
        arrive(fleet, *messages)
        ended = await follower.follow()
        await fleet.close()
        return ended

    return asyncio.run(follow()), listener


def contacts(listener: Listener) -> list[Event]:
    return [event for event in listener.events if event.kind is EventKind.CONTACT_LOST]


def test_nobody_of_a_cancelled_job_is_lost_or_called_again(monkeypatch: pytest.MonkeyPatch) -> None:
    killed = protocol.RankEnd(0, "", None, 15, time.time(), stopped=False)
    signalled = protocol.Stopping(protocol.SIGNALLED, time.time())
    messages = (("n1", killed), ("n1", signalled), ("n1", CLOSED), ("n2", CLOSED), ("n3", Lost(end_of_job("7"))))
    outcome, listener = followed(Slurm("COMPLETING", "CANCELLED"), monkeypatch, *messages)
    assert (outcome.status, outcome.reason) == (Status.STOPPED, "Slurm job 7 was cancelled (scancel)")
    assert (outcome.by_hand, outcome.causes) == (True, ())
    assert outcome.unproven == ("n1", "n2", "n3")
    assert contacts(listener) == []
    assert listener.phases == ["Slurm job 7 is ending"]


def test_a_job_that_ends_otherwise_is_the_cause_and_no_node_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome, listener = followed(Slurm("TIMEOUT"), monkeypatch, ("n1", CLOSED), ("n2", CLOSED), ("n3", CLOSED))
    assert (outcome.status, outcome.reason) == (Status.FAILED, "Slurm job 7 has ended")
    assert [cause.kind for cause in outcome.causes] == ["job-ended"]
    assert contacts(listener) == []


@pytest.mark.parametrize("meanwhile", [Lost("no heartbeat for 30 s"), Reconnected()])
def test_a_node_that_was_lost_or_has_a_connection_when_slurm_answers_is_not_called_again(
    meanwhile: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[str] = []
    slurm, listener = Slurm("RUNNING"), Listener()
    monkeypatch.setattr(commands, "job_state", slurm.state_of)
    monkeypatch.setattr(Fleet, "reconnect", lambda _, host: called.append(host))

    async def story() -> None:
        fleet = Fleet(PLAN, "0123")
        follower = RunFollower(PLAN, fleet, listener, streams=[])
        await follower._on_message("n1", CLOSED)
        _, answer = await asyncio.wait_for(fleet.inbox.hear(), 60)
        await follower._on_message("n1", meanwhile)
        await follower._on_message("", answer)

    asyncio.run(story())
    assert called == []
    assert [event.text for event in contacts(listener)] == []
