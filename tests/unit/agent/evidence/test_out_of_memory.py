"""OOM kill counts and memory limits of cgroups, versions 1 and 2, in temporary directories."""

from pathlib import Path

import pytest

from pylaunch.agent.evidence import out_of_memory
from pylaunch.agent.evidence.out_of_memory import LOOK_S, Memory
from pylaunch.agent.shared import cgroups
from pylaunch.protocol.node_evidence import OutOfMemory

MIB = 1 << 20


def version_2(root: Path, *, kills: int, limit: str = "max", above: str = str(512 * MIB)) -> Memory:
    session = root / "user.slice" / "session-1.scope"
    session.mkdir(parents=True, exist_ok=True)
    (root / "user.slice" / "memory.max").write_text(above)
    (session / "memory.max").write_text(limit)
    (session / "memory.events").write_text(f"low 0\nmax 9\noom {kills}\noom_kill {kills}\n")
    return Memory("0::/user.slice/session-1.scope\n", str(root))


def test_an_oom_kill_in_our_cgroup_names_the_tightest_limit(tmp_path: Path) -> None:
    memory = version_2(tmp_path, kills=1)
    assert memory.killer(by_sigkill=True) is None
    version_2(tmp_path, kills=2)
    assert memory.killer(by_sigkill=True) == OutOfMemory(True, 512 * MIB, "cgroup")
    assert memory.killer(by_sigkill=False) == OutOfMemory(False, 512 * MIB, "cgroup")


def test_an_earlier_oom_kill_is_not_the_cause_of_a_later_failure(tmp_path: Path) -> None:
    memory = version_2(tmp_path, kills=0)
    version_2(tmp_path, kills=1)
    memory.tick(10.0)
    assert memory.killer(by_sigkill=True) is not None
    memory.tick(10.0 + LOOK_S / 2)
    assert memory.killer(by_sigkill=True) is not None
    memory.tick(10.0 + LOOK_S)
    assert memory.killer(by_sigkill=True) is None


def test_version_1_has_another_counter_file_and_a_huge_number_for_no_limit(tmp_path: Path) -> None:
    session = tmp_path / "memory" / "jobs" / "one"
    session.mkdir(parents=True)
    (session / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    (session.parent / "memory.limit_in_bytes").write_text(f"{300 * MIB}\n")
    (session / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 0\n")
    memory = Memory("4:memory:/jobs/one\n0::/\n", str(tmp_path))
    (session / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
    assert memory.killer(by_sigkill=True) == OutOfMemory(True, 300 * MIB, "cgroup")


def test_an_oom_kill_in_the_root_cgroup_is_not_certainly_ours(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    control = tmp_path / "memory" / "memory.oom_control"
    control.write_text("oom_kill 0\n")
    memory = Memory("4:memory:/\n", str(tmp_path))
    control.write_text("oom_kill 1\n")
    found = memory.killer(by_sigkill=True)
    assert found is not None
    assert (found.certain, found.of) == (False, "host")


@pytest.mark.parametrize(("available", "of"), [(200, "host"), (900, "outside")])
def test_a_kill_that_only_the_host_counts_was_by_another_limit_if_the_host_had_memory_left(
    available: int, of: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kills = iter([0, 1, 1])
    monkeypatch.setattr(out_of_memory, "meminfo", lambda: {"MemTotal": 1000, "MemAvailable": available})
    monkeypatch.setattr(cgroups, "oom_kills", lambda: next(kills))
    assert Memory("", str(tmp_path)).killer(by_sigkill=True) == OutOfMemory(
        False, available if of == "outside" else 1000, of
    )
