"""A reset that would remove environments: only where it is known that no rank needs them."""

import pytest

from pylaunch.checks.occupancy.look import HostView, Occupancy, Occupant, Unread
from pylaunch.errors import ClusterNotReadyError
from pylaunch.features.provision import provisioning
from pylaunch.model.cluster import Cluster, Host
from pylaunch.probe.ask import Unreachable

CLUSTER = Cluster((Host("n1", "10.0.0.1"), Host("n2", "10.0.0.2")))
IDLE = HostView(Occupancy(), (), None, {}, ())


def rank(run: str | None, user: str = "ada") -> Occupant:
    return Occupant(7, 1, 0.0, user, "python train.py", "/", (), (), is_rank=True, run=run)


def refusal(
    monkeypatch: pytest.MonkeyPatch, views: dict[str, HostView], unreachable: dict[str, Unreachable] | None = None
) -> str:
    monkeypatch.setattr(provisioning, "look", lambda cluster, port: (views, unreachable or {}))
    with pytest.raises(ClusterNotReadyError) as refused:
        provisioning.refuse_live_ranks(CLUSTER)
    return refused.value.render()


def test_hosts_without_ranks_may_be_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provisioning, "look", lambda cluster, port: ({"n1": IDLE, "n2": IDLE}, {}))
    provisioning.refuse_live_ranks(CLUSTER)


def test_a_host_that_does_not_answer_is_not_taken_for_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    text = refusal(monkeypatch, {"n1": IDLE}, {"n2": Unreachable("no route to host")})
    assert "n2" in text
    assert "no route to host" in text


def test_a_host_whose_processes_cannot_be_read_is_not_taken_for_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    unread = HostView(Occupancy(), (), None, {}, (Unread("occupants.processes", "no answer within 20 s"),))
    text = refusal(monkeypatch, {"n1": unread, "n2": IDLE})
    assert "n1: its processes cannot be read: no answer within 20 s" in text


def test_a_named_environment_may_go_while_runs_use_others_but_not_beside_ranks_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    named, of_runs = CLUSTER.with_env_name("vision"), Occupancy(at_work=(rank("7f3a9c01"),))
    monkeypatch.setattr(
        provisioning, "look", lambda cluster, port: ({"n1": HostView(of_runs, (), None, {}, ()), "n2": IDLE}, {})
    )
    provisioning.refuse_live_ranks(named)
    mixed = Occupancy(at_work=(rank("7f3a9c01"),), foreign=(rank(None, "eve"),))
    monkeypatch.setattr(
        provisioning, "look", lambda cluster, port: ({"n1": HostView(mixed, (), None, {}, ()), "n2": IDLE}, {})
    )
    with pytest.raises(ClusterNotReadyError) as refused:
        provisioning.refuse_live_ranks(named)
    assert "ranks that pylaunch did not start of eve" in refused.value.render()
    assert "7f3a9c01" not in refused.value.render()


def test_no_command_is_made_of_what_another_user_wrote(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Occupancy(at_work=(rank("7f3a9c01"), rank("--all")), foreign=(rank("0123abcd", "eve"),))
    text = refusal(monkeypatch, {"n1": HostView(own, (), None, {}, ()), "n2": IDLE})
    assert "n1: run 0123abcd of eve" in text
    _, _, hint = text.partition("hint: ")
    assert "pylaunch stop 7f3a9c01" in hint
    assert "0123abcd" not in hint
    assert "--all" not in hint
