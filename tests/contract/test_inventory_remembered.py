"""Ansible is not asked the same twice, and is asked again whenever anything may be different."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pylaunch.inventory import load_cluster
from pylaunch.store.files import cache_directory
from pylaunch.transport import process

INVENTORY = "[cluster]\nn1 ansible_host=10.1.0.1\n"


class Asked:
    """Count the calls of ansible-inventory."""

    def __init__(self) -> None:
        self._count = 0

    def one_more(self) -> None:
        self._count += 1

    def times(self) -> int:
        count, self._count = self._count, 0
        return count


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Asked:
    counted, run = Asked(), process.run

    def counting(*arguments: object, **options: object) -> process.Completed:
        counted.one_more()
        return run(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(process, "run", counting)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return counted


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    file = tmp_path / "cluster" / "cluster.ini"
    file.parent.mkdir()
    file.write_text(INVENTORY)
    return file


def test_the_second_answer_is_the_first_and_costs_no_ansible(asked: Asked, inventory: Path) -> None:
    first = load_cluster(inventory)
    assert asked.times() == 1
    assert load_cluster(inventory) == first
    assert asked.times() == 0
    assert load_cluster(inventory, limit="n1").names == ("n1",)
    assert asked.times() == 0


CHANGES: dict[str, Callable[[Path], object]] = {
    "the inventory": lambda directory: (directory / "cluster.ini").write_text(INVENTORY + "n2 ansible_host=10.1.0.2\n"),
    "a variable of a group": lambda directory: _put(directory / "group_vars" / "cluster.yml", "interface: eth7\n"),
    "a variable of a host": lambda directory: _put(directory / "host_vars" / "n1" / "net.yml", "interface: eth7\n"),
    "a variable in the working directory": lambda directory: _put(
        directory.parent / "here" / "group_vars" / "all.yml", "interface: eth7\n"
    ),
}


def _put(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.mark.parametrize("what", CHANGES)
def test_what_has_changed_is_seen_at_once_and_then_kept(what: str, asked: Asked, inventory: Path) -> None:
    before = load_cluster(inventory)
    assert asked.times() == 1
    CHANGES[what](inventory.parent)
    after = load_cluster(inventory)
    assert asked.times() == 1
    assert after.hosts != before.hosts
    assert load_cluster(inventory) == after
    assert asked.times() == 0


def _linked(directory: Path) -> None:
    _put(directory.parent / "shared" / "net.yml", "interface: eth7\n")
    (directory / "group_vars").mkdir()
    (directory / "group_vars" / "all").symlink_to(directory.parent / "shared")


UNNAMEABLE: dict[str, Callable[[Path], object]] = {
    "settings of the user": lambda directory: _put(directory.parent / "home" / ".ansible.cfg", "[defaults]\n"),
    "settings of the project": lambda directory: _put(directory.parent / "here" / "ansible.cfg", "[defaults]\n"),
    "a plugin of the user": lambda directory: (directory.parent / "home/.ansible/plugins/vars").mkdir(parents=True),
    "a plugin of the project": lambda directory: (directory / "vars_plugins").mkdir(),
    "a password": lambda directory: _put(directory / "group_vars" / "all.yml", "ansible_become_password: sesame\n"),
    "a nested token": lambda directory: _put(directory / "group_vars" / "all.yml", "site: [{api_token: sesame}]\n"),
    "a directory that is somewhere else": _linked,
    "files without end": lambda directory: _put(directory / "group_vars" / "all" / "large.txt~", "#" * (4 << 20)),
}


@pytest.mark.parametrize("what", UNNAMEABLE)
def test_ansible_is_asked_each_time_where_not_all_can_be_named_or_there_is_a_secret(
    what: str, asked: Asked, inventory: Path
) -> None:
    UNNAMEABLE[what](inventory.parent)
    assert load_cluster(inventory) == load_cluster(inventory)
    assert asked.times() == 2
    assert not any("sesame" in file.read_text() for file in cache_directory().rglob("*.json"))


def test_a_program_is_run_each_time_whatever_its_name(asked: Asked, inventory: Path) -> None:
    inventory.write_text('#!/bin/sh\necho \'{"cluster": {"hosts": ["n1"]}, "_meta": {"hostvars": {"n1": {}}}}\'\n')
    inventory.chmod(0o755)
    load_cluster(inventory)
    load_cluster(inventory)
    assert asked.times() == 2
