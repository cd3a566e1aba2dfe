"""`gpus` for hosts in the same state, and for hosts whose devices are not known."""

import pytest

from pylaunch.checks.occupancy.look import HostView, Occupancy, Unread
from pylaunch.cli.main import run
from pylaunch.errors import ExitCode
from pylaunch.features.gpus import command, devices
from pylaunch.features.gpus.devices import DeviceReport
from pylaunch.model.cluster import Cluster, Host
from pylaunch.probe.ask import Unreachable

CLUSTER = Cluster(tuple(Host(f"n{number}", f"10.0.0.{number}") for number in range(1, 7)))
UNREAD = (Unread("gpu.smi", "no answer within 20 s"),)


def view(unread: tuple[Unread, ...] = (), complaint: str | None = None) -> HostView:
    return HostView(Occupancy(), (), complaint, {}, unread)


def test_hosts_in_the_same_state_are_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    silent = {name: Unreachable("no key", f"pylaunch trust --limit {name}") for name in ("n5", "n6")}
    views = {name: view(UNREAD) for name in ("n1", "n2")} | {name: view((), "No devices") for name in ("n3", "n4")}
    monkeypatch.setattr(command, "hosts_to_ask", lambda inventory, limit: CLUSTER)
    monkeypatch.setattr(devices, "look", lambda cluster, port: (views, silent))
    assert run(["gpus"]) == ExitCode.CLUSTER_NOT_READY
    assert capsys.readouterr().err.splitlines()[1:] == [
        "n[3-4]: nvidia-smi: No devices",
        "n[1-2]: could not look at gpu.smi: no answer within 20 s",
        "n[5-6]: no key",
        "",
        "hint: pylaunch trust --limit 'n[5-6]'",
    ]


def test_nothing_is_claimed_of_the_devices_of_a_host_whose_nvidia_smi_does_not_answer() -> None:
    views = {"n1": view(), "n2": view((), "no answer from nvidia-smi within 15 s")}
    assert DeviceReport(views, {"n1": (), "n2": ()}, {}).without_devices == ("n1",)
