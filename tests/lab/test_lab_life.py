"""A lab comes up whatever an earlier one left, and goes without a trace."""

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lab import locks, network, spec
from lab.lab import TOOL, Lab
from lab.nodes import cgroup
from lab.nodes.waiting import reached
from pylaunch.transport import process


def traces(name: str) -> dict[str, list[str]]:
    """Everything on this machine that belongs to lab `name`, by kind."""
    identity = spec.short_name(name)
    tables = process.run(("nft", "list", "tables")).checked().stdout.splitlines()
    own = cgroup.here()
    assert own is not None
    group = own / f"pylaunch-lab-{name}"
    return {
        "links": [link.name for link in network.links() if identity in link.name],
        "tables": [line for line in tables if line.endswith(f" {network.nft_table(name)}")],
        "cgroups": [str(group)] if group.exists() else [],
        "processes": [str(pid) for pid in processes_under(f"/pylaunch-lab-{name}/")],
        "files": [str(path) for path in [spec.lab_paths(name).directory] if path.exists()],
        "nspawn": [str(path) for path in Path("/run/systemd/nspawn").glob(f"*/{identity}-*")],
        "mounts": [line for line in all_mounts() if str(spec.lab_paths(name).directory) in line],
    }


def processes_under(group: str) -> list[int]:
    """Those that are alive: what only waits for its parent to notice is in a cgroup that is "(deleted)"."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cgroup"):
        try:
            if any(group in line and not line.endswith("(deleted)") for line in path.read_text().splitlines()):
                found.append(int(path.parent.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def all_mounts() -> set[str]:
    """The mounts of every process, so that those in namespaces of their own are seen too."""
    lines: set[str] = set()
    for path in Path("/proc").glob("[0-9]*/mountinfo"):
        try:
            lines |= set(path.read_text().splitlines())
        except OSError:
            continue
    return lines


def lent_settings() -> list[int]:
    """Kernel settings that labs change while there are any."""
    names = ("net/ipv4/ip_forward", "fs/inotify/max_user_instances", "net/ipv4/neigh/default/gc_thresh3")
    return [int(Path("/proc/sys", name).read_text()) for name in names]


def test_down_leaves_nothing_of_what_up_made(lab_name: str, tmp_path: Path) -> None:
    with locks.changing("machine"):
        other_labs, before = spec.names(), lent_settings()
    lab = Lab.up(lab_name, nodes=2, share=[tmp_path])
    there = traces(lab_name)
    assert [kind for kind, found in there.items() if not found] == [], "the probe must see every kind while it is there"
    assert lent_settings() == [1, max(8192, before[1]), max(16384, before[2])]
    lab.down()
    assert {kind: found for kind, found in traces(lab_name).items() if found} == {}
    with locks.changing("machine"):
        if not other_labs and not spec.names():
            assert lent_settings() == before


def test_labs_live_side_by_side(fresh_lab: Callable[..., Lab]) -> None:
    first, second = fresh_lab(), fresh_lab()
    first["n1"].write("/etc/which", "first")
    second["n1"].write("/etc/which", "second")
    assert first["n1"].address != second["n1"].address
    first.down()
    assert second["n1"].read("/etc/which") == "second"
    assert second.tool("ssh", "--name", second.spec.name, "n1", "cat", "/etc/which").stdout == "second"


@pytest.mark.parametrize("reaches", ["lab.json", "nodes/n2/console.log"])
def test_up_recovers_from_an_up_that_was_killed(lab_name: str, reaches: str) -> None:
    killed = subprocess.Popen(
        (*TOOL, "up", "--name", lab_name, "--nodes", "2"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    directory = spec.lab_paths(lab_name).directory
    assert reached((directory / reaches).exists, timeout_s=120)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    (directory / "complete").unlink(missing_ok=True)
    lab = Lab.up(lab_name, nodes=2)
    assert [node.run("hostname").stdout for node in lab] == ["n1\n", "n2\n"]
    lab.down()
    assert not any(traces(lab_name).values())


def test_down_finishes_what_a_killed_down_began(lab_name: str) -> None:
    lab = Lab.up(lab_name, nodes=2)
    killed = subprocess.Popen((*TOOL, "down", "--name", lab_name), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert reached(lambda: not lab.spec.paths.complete.exists(), timeout_s=120)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    if lab.spec.paths.directory.exists():
        lab.down()
    assert not any(traces(lab_name).values())


def test_a_frozen_node_does_not_keep_the_lab_from_going(lab_name: str) -> None:
    lab = Lab.up(lab_name, nodes=2)
    lab["n2"].freeze()
    lab.down()
    assert not any(traces(lab_name).values())
