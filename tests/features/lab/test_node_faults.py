import os
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any, cast

import pytest

from lab.network import POOL, next_subnet
from lab.node_faults import resource_faults
from lab.node_faults.faults import Fill
from lab.node_faults.resource_faults import LittleMemory
from lab.nodes.cgroup import Cgroup, own_directory
from lab.nodes.machine import Machine
from pylaunch.errors import LabError

HYBRID = """\
30 25 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw
31 30 0:27 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
32 30 0:28 / /sys/fs/cgroup/unified rw,relatime shared:4 - cgroup2 cgroup2 rw
"""
PURE = "30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"


@pytest.mark.parametrize(
    ("mountinfo", "own", "expected"),
    [
        (HYBRID, "4:memory:/elsewhere\n0::/\n", "/sys/fs/cgroup/unified"),
        (PURE, "0::/user.slice/session-1.scope\n", "/sys/fs/cgroup/user.slice/session-1.scope"),
        (PURE, "0::/../outside\n", "/sys/fs/cgroup"),
        ("31 30 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n", "4:memory:/\n", None),
    ],
)
def test_our_cgroup_is_found_on_the_version_2_hierarchy(mountinfo: str, own: str, expected: str | None) -> None:
    assert own_directory(mountinfo, own) == (expected and Path(expected))


def test_a_service_that_ends_while_its_node_is_read_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, pid in (("init.scope", "1"), ("system.slice", "7"), ("system.slice/ends.service", "8")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cgroup.procs").write_text(f"{pid}\n")
    listed = os.scandir

    def scandir(path: Any) -> Any:
        if str(path).endswith("ends.service"):
            (tmp_path / "system.slice/ends.service/cgroup.procs").unlink()
            (tmp_path / "system.slice/ends.service").rmdir()
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert sorted(Cgroup(tmp_path).processes()) == [1, 7]


class Forking:
    """A node with a process that was forked after the others were listed: the directory `forked` stands for it."""

    def __init__(self, forked: Path) -> None:
        self.cgroup: Any = self
        self._forked = forked
        self._is_listed = False

    def processes(self) -> list[int]:
        if self._is_listed:
            self._forked.rmdir()
        self._is_listed = True
        return []


def test_a_process_that_is_forked_while_the_limit_is_removed_does_not_keep_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited = tmp_path / "n1"
    forked = limited / "forked"
    forked.mkdir(parents=True)
    monkeypatch.setattr(resource_faults, "_memory_cgroup", lambda node: limited)
    LittleMemory(1).undo(cast(Machine, Forking(forked)))
    assert not limited.exists()


OF_THE_NODE, NO_PATH = "the node itself runs from there", "expected an absolute path"


@pytest.mark.parametrize(
    ("path", "why"),
    [*((path, OF_THE_NODE) for path in ("/", "//", "/usr", "/etc/", "/proc")),
     *((path, NO_PATH) for path in ("tmp", "", "/tmp/../usr"))],
)  # fmt: skip
def test_what_a_node_runs_from_is_not_hidden_and_other_words_are_no_path(path: str, why: str) -> None:
    with pytest.raises(LabError, match=why):
        Fill(path)


@pytest.mark.parametrize("path", ["/var/tmp", "/var/lib/pylaunch", "/opt"])
def test_other_directories_may_be_full(path: str) -> None:
    assert Fill(path).path == path


def test_subnets_are_given_out_in_turn_so_that_a_new_lab_has_not_the_addresses_of_the_last() -> None:
    assert next_subnet(-1, []) == IPv4Network("10.213.0.0/24")
    assert next_subnet(4, []) == IPv4Network("10.213.5.0/24")
    assert next_subnet(255, []) == IPv4Network("10.213.0.0/24")


def test_what_this_machine_routes_already_is_passed_over() -> None:
    taken = [IPv4Network("10.213.0.0/23"), IPv4Network("10.213.2.9/32"), IPv4Network("192.0.2.0/24")]
    assert next_subnet(-1, taken) == IPv4Network("10.213.3.0/24")


def test_a_machine_that_routes_all_of_them_gets_an_error_that_says_by_what() -> None:
    with pytest.raises(LabError, match=str(POOL)) as refused:
        next_subnet(-1, [IPv4Network("10.0.0.0/8")])
    assert refused.value.evidence == ("10.0.0.0/8",)
