from pathlib import Path

import pytest

from lab import spec
from lab.cluster_file import with_host_keys
from lab.spec import LabSpec, Machines
from pylaunch.errors import LabError, UsageError


@pytest.fixture(autouse=True)
def _own_labs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spec, "SYSTEM_LABS", tmp_path / "lab")


@pytest.mark.parametrize("machines", [None, Machines("/image", "10.213.7.0/24", "/sys/fs/cgroup/pylaunch-lab-a")])
def test_a_lab_is_read_as_it_was_written(machines: Machines | None) -> None:
    written = LabSpec("a", ("n1", "n2"), "/tmp/cluster.ini", ("/share one",), machines)
    spec.save(written)
    assert spec.load("a") == written


def test_a_lab_whose_spec_was_never_finished_does_not_exist() -> None:
    directory = spec.lab_paths("half").directory
    directory.mkdir(parents=True)
    (directory / "lab.new").write_text("{")
    with pytest.raises(LabError, match="no lab named half"):
        spec.load("half")


@pytest.mark.parametrize("name", ["", "-a", "a-", "A", "a b", "../a", "a" * 31, "a\n"])
def test_a_name_that_could_not_be_a_file_or_a_host_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="lab name"):
        spec.check_request(name, 1)


@pytest.mark.parametrize("nodes", [0, -1, 65])
def test_an_impossible_number_of_nodes_is_refused(nodes: int) -> None:
    with pytest.raises(UsageError, match=f"number of nodes {nodes}"):
        spec.check_request("a", nodes)


FOREIGN = """\
# mine
gpu01,10.213.9.99 ssh-ed25519 AAAA
@cert-authority *.example ssh-rsa BBBB
|1|c2FsdA==|aGFzaA== ssh-rsa CCCC
"""


def test_only_the_lines_of_the_lab_s_own_addresses_are_replaced() -> None:
    before = FOREIGN + "10.213.9.11 ssh-ed25519 OLD\n"
    after = with_host_keys(before, {"10.213.9.11": "ssh-ed25519 NEW", "10.213.9.12": "ssh-ed25519 SECOND"})
    assert after == FOREIGN + "10.213.9.11 ssh-ed25519 NEW\n10.213.9.12 ssh-ed25519 SECOND\n"
