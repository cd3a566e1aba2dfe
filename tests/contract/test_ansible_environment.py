"""Role python_env on this machine: what its module installs, refuses and leaves alone."""

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import pytest

from pylaunch.agent.run.holdings import Holdings
from pylaunch.agent.shared import installed
from pylaunch.base.layout import NodeRoot
from pylaunch.broadcast.payload import ChangedError
from pylaunch.errors import UsageError
from pylaunch.features import judge_settings
from pylaunch.features.provision.convergence import ProvisionOptions
from pylaunch.features.provision.environments import spread_archive
from pylaunch.features.provision.environments.environment import (
    ARCHIVE,
    MANIFEST,
    EnvironmentManifest,
    LockRequest,
    lock,
)
from pylaunch.features.provision.provisioning import plan_provision, provision
from pylaunch.inventory import load_cluster
from pylaunch.model.cluster import Cluster, Connection, Host
from pylaunch.protocol import NodeTask
from pylaunch.store import content
from pylaunch.store.files import project_directory
from pylaunch.transport.runner import PlaybookResult, PlaybookRun, run_playbook
from tests.node_python import NODE_PYTHON

HERE = Cluster((Host("here", "127.0.0.1", Connection.LOCAL),))


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment of two pure packages, one with a console script."""
    directory = tmp_path_factory.mktemp("locked")
    (directory / "requirements.txt").write_text("-r more.txt\nsix==1.17.0\n")
    (directory / "more.txt").write_text("tabulate==0.9.0\n")
    lock(LockRequest((directory / "requirements.txt",), directory / "environment", NODE_PYTHON))
    return directory / "environment"


@pytest.fixture
def source(locked: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(locked, tmp_path / "source"))


def manifest_of(source: Path) -> EnvironmentManifest:
    return EnvironmentManifest(**json.loads((source / MANIFEST).read_text()))


def write_manifest(source: Path, manifest: EnvironmentManifest) -> None:
    (source / MANIFEST).write_text(json.dumps(asdict(manifest)))


def install(tmp_path: Path, source: Path, tasks: str = "main", **variables: object) -> PlaybookResult:
    site = tmp_path / "site"
    if not site.exists():
        (site / "playbooks").mkdir(parents=True)
        for name in ("galaxy.yml", "meta", "plugins", "roles"):
            (site / name).symlink_to(content.content_directory() / name)
    playbook = site / "playbooks" / f"{tasks}.yml"
    role = f"{{name: pylaunch.cluster.python_env, tasks_from: {tasks}.yml}}"
    playbook.write_text(f"- {{hosts: all, gather_facts: false, tasks: [import_role: {role}]}}\n")
    run = PlaybookRun(
        playbook,
        HERE,
        extra_vars={
            "python_env_source": str(source),
            "python_env_root": str(tmp_path / "root"),
            "pylaunch_unprivileged": True,
            **variables,
        },
    )
    return run_playbook(run)


def failure_of(result: PlaybookResult) -> str:
    (failure,) = result.failures
    return failure.message


@pytest.fixture(scope="module")
def place(locked: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The environment is installed here, over two older ones of which none is to be kept."""
    directory = tmp_path_factory.mktemp("place")
    for name in ("a", "b"):
        (directory / "root" / "envs" / name).mkdir(parents=True)
    assert install(directory, locked, python_env_keep=1).ok
    return directory


def test_an_environment_is_installed_whole_and_a_second_run_changes_nothing(place: Path, source: Path) -> None:
    current = place / "root" / "current"
    script = subprocess.run([current / "bin" / "tabulate", "--help"], stdout=subprocess.PIPE, check=True)
    assert b"Usage" in script.stdout
    subprocess.run([current / "bin" / "python", "-c", "import six, tabulate"], check=True)
    assert current.resolve().name == manifest_of(source).id
    assert not (place / "root" / "incoming").exists()
    recorded = json.loads((current / installed.MARKER).read_text())["digest"]
    assert recorded == installed.installed_digest(str(current))

    again = install(place, source)
    assert again.ok
    assert again.tallies["here"].changed == 0


def test_only_the_last_environments_are_kept(place: Path, source: Path) -> None:
    assert [path.name for path in (place / "root" / "envs").iterdir()] == [manifest_of(source).id]


def test_an_environment_that_was_changed_is_made_new(place: Path, source: Path) -> None:
    current = place / "root" / "current"
    (record,) = current.glob("lib/python*/site-packages/six-*.dist-info/RECORD")
    record.write_text("")
    assert install(place, source).tallies["here"].changed > 0
    (record,) = current.glob("lib/python*/site-packages/six-*.dist-info/RECORD")
    assert record.read_text()


def test_an_environment_whose_interpreter_is_gone_is_made_new(place: Path, source: Path) -> None:
    interpreter = place / "root" / "current" / "bin" / "python"
    interpreter.unlink()
    assert install(place, source).ok
    subprocess.run([interpreter, "-c", "import six"], check=True)


def test_a_wheel_that_was_changed_is_named_and_the_current_environment_stays(source: Path, tmp_path: Path) -> None:
    (tmp_path / "root" / "envs" / "old").mkdir(parents=True)
    (tmp_path / "root" / "current").symlink_to("envs/old")
    manifest = manifest_of(source)
    (wheel,) = (name for name in manifest.files if name.startswith("wheels/six"))
    with tarfile.open(source / ARCHIVE) as archive:
        offset = archive.getmember(wheel).offset_data
    with (source / ARCHIVE).open("r+b") as file:
        file.seek(offset + 100)
        file.write(b"tampered")
    message = failure_of(install(tmp_path, source))
    assert message.startswith(f"{wheel} differs from the lock: sha256 ")
    assert (tmp_path / "root" / "current").readlink() == Path("envs/old")
    assert sorted(path.name for path in (tmp_path / "root" / "envs").iterdir()) == ["old"]


def test_a_disk_that_is_too_small_is_refused_before_the_wheels_are_copied(source: Path, tmp_path: Path) -> None:
    write_manifest(source, replace(manifest_of(source), unpacked_bytes=1 << 60))
    result = install(tmp_path, source)
    assert "are free, the environment needs" in failure_of(result)
    assert "Copy the environment's wheels" not in result.returned["here"]


def test_another_python_than_the_locked_one_is_refused_with_the_command_to_type(source: Path, tmp_path: Path) -> None:
    write_manifest(source, replace(manifest_of(source), python="3.7"))
    assert f"pylaunch env lock --python {NODE_PYTHON}" in failure_of(install(tmp_path, source))


@contextlib.contextmanager
def used_by_a_run(environment: Path) -> Iterator[None]:
    """An agent has prepared a run with the interpreter of `environment`."""
    holdings = Holdings(cast(NodeTask, SimpleNamespace(python=f"{environment}/bin/python", devices=[], hold_port=None,
                                                       choose_port=False)), NodeRoot("/nowhere"))  # fmt: skip
    assert holdings.take() == []
    yield
    holdings.drop()


def test_an_environment_with_a_name_is_beside_the_others_and_each_is_removed_alone(
    locked: Path, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    named: dict[str, Any] = {"pylaunch_environment_name": "vision", "python_env_keep": 1}
    for name in ("of-current", "unused", "used"):
        (root / "envs" / name).mkdir(parents=True)
        (root / "envs" / name / installed.MARKER).touch()
    (root / "current").symlink_to("envs/of-current")
    (root / "incoming").mkdir()
    for archive in ("of-another.tar", "abandoned.tar"):
        (root / "incoming" / archive).touch()
    os.utime(root / "incoming" / "abandoned.tar", (0, 0))
    vision = manifest_of(locked).id
    with used_by_a_run(root / "envs" / "used"):
        assert install(tmp_path, locked, **named).ok
        assert {path.name for path in (root / "envs").iterdir()} == {"of-current", "used", vision}
        assert f"a run uses the environment {root}/envs/used" in failure_of(install(tmp_path, locked, "reset", **named))
    assert (root / "named" / "vision").readlink() == Path("../envs") / vision
    subprocess.run([root / "named" / "vision" / "bin" / "python", "-c", "import six, tabulate"], check=True)
    assert [path.name for path in (root / "incoming").iterdir()] == ["of-another.tar"]

    assert install(tmp_path, locked, "reset").ok
    assert not (root / "current").is_symlink()
    assert {path.name for path in (root / "envs").iterdir()} == {"used", vision}
    assert install(tmp_path, locked, "reset", **named).tallies["here"].changed == 1
    assert list(root.iterdir()) == []


def with_directories(locked: Path, at: Path, names: tuple[str, ...], node: str = "node") -> tuple[Path, Path]:
    """Make an inventory of hosts that are directories of this machine; return it and its copy of the environment."""
    hosts = "".join(f"{n} pylaunch_env_root={at}/{n}/root pylaunch_node_root={at}/{n}/{node}\n" for n in names)
    common = "ansible_connection=local\nansible_host=127.0.0.1\npylaunch_unprivileged=true\n"
    (at / "cluster.ini").write_text(f"[cluster]\n{hosts}[cluster:vars]\n{common}")
    environment = shutil.copytree(locked, project_directory(at / "cluster.ini") / "environment")
    return at / "cluster.ini", Path(environment)


def test_hosts_pass_an_archive_on_and_one_whose_copy_was_changed_gets_it_from_here(
    locked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("n1", "n2", "n3")
    inventory, _ = with_directories(locked, tmp_path, names, node="node-{user}")
    (tmp_path / "n2/root/envs/other").mkdir(parents=True)
    (tmp_path / "n2/root/current").symlink_to("envs/other")
    monkeypatch.setattr(spread_archive, "LEAST_SAVED", 1)
    stores = {name: tmp_path / name / f"node-{os.getuid()}" / "blobs" for name in names}
    notes = []

    def note(line: str) -> None:
        notes.append(line)
        for passed_on in stores["n3"].glob("*/*") if "; the hosts lacked" in line else ():
            passed_on.chmod(0o600)
            passed_on.write_bytes(bytes(passed_on.stat().st_size))

    plan = plan_provision(load_cluster(inventory), ProvisionOptions(roles=("python_env",)), judge_settings)
    report = provision(plan, lambda _: None, on_note=note)
    report.raise_for_errors()
    assert "; the hosts lacked" in notes[-1], notes
    assert report.done is not None
    copies = {name: tasks["Copy the environment's wheels"] for name, tasks in report.done.result.returned.items()}
    assert [name for name in names if copies[name].get("changed")] == ["n2", "n3"], "n2 has another environment"
    assert [*tmp_path.glob("n*/node-*/blobs/*/*")] == []
    for name in names:
        subprocess.run([tmp_path / name / "root/current/bin/python", "-c", "import six, tabulate"], check=True)


def test_hosts_with_the_environment_before_pass_on_the_wheels_that_it_had_not(
    locked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("n1", "n2", "n3")
    inventory, directory = with_directories(locked, tmp_path, names)
    monkeypatch.setattr(spread_archive, "LEAST_SAVED", 1)
    notes: list[str] = []

    def provisioned(on: str) -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
        cluster = load_cluster(inventory).only(on.split())
        plan = plan_provision(cluster, ProvisionOptions(roles=("python_env",)), judge_settings)
        report = provision(plan, lambda _: None, on_note=notes.append)
        report.raise_for_errors()
        assert report.done is not None
        return report.done.result.returned

    provisioned("n1 n2")
    notes.clear()
    (tmp_path / "requirements.txt").write_text("six==1.17.0\ntabulate==0.9.0\ntoml==0.10.2\n")
    lock(LockRequest((tmp_path / "requirements.txt",), directory, NODE_PYTHON))
    shutil.rmtree(tmp_path / "n2/root/tools")  # It needs uv once more, which is no part of what changed.
    returned = provisioned("n1 n2 n3")
    whole = (directory / ARCHIVE).stat().st_size
    assert whole > 10 << 20, "uv is in the archive"
    assert [line for line in notes if "; the hosts lacked" in line] == [
        "environment: this machine sent 20 KiB; the hosts lacked 40 KiB"
    ], notes
    copied = [name for name in names if returned[name]["Copy the environment's wheels"].get("changed")]
    assert copied == ["n2", "n3"], "n3 has no environment, and no other host that lacks as much"
    for name in names:
        subprocess.run([tmp_path / name / "root/current/bin/python", "-c", "import six, tabulate, toml"], check=True)


def test_the_role_takes_the_archive_only_on_hosts_that_received_it_whole(
    locked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inventory, directory = with_directories(locked, tmp_path, ("n1", "n2"))
    cluster = load_cluster(inventory)
    (tmp_path / "n2").mkdir()
    (tmp_path / "n2/node").write_text("a file\n")
    notes: list[str] = []
    assert spread_archive.pass_on_archive(cluster, directory, notes.append) == {}  # It would save little.
    monkeypatch.setattr(spread_archive, "LEAST_SAVED", 1)
    received = spread_archive.pass_on_archive(cluster, directory, notes.append)["python_env_received"]
    assert list(cast("dict[str, object]", received)) == ["n1"], notes
    assert any(note.startswith("note: n2: no archive from other hosts, so this machine copies it") for note in notes)

    def is_changed(_contents: object) -> NoReturn:
        raise ChangedError([directory / ARCHIVE])

    with monkeypatch.context() as changing:
        changing.setattr(spread_archive, "stored_files", is_changed)
        assert spread_archive.pass_on_archive(cluster, directory, notes.append) == {}
    assert notes[-1].endswith("changed while it was being pushed, so this machine copies it")
    os.truncate(directory / ARCHIVE, 10)
    assert spread_archive.pass_on_archive(cluster, directory, notes.append) == {}
    (directory / ARCHIVE).unlink()
    assert spread_archive.pass_on_archive(cluster, directory, notes.append) == {}
    assert notes[-1].startswith("note: hosts do not pass the archive on: [Errno 2] No such file")


def test_a_file_that_is_not_as_large_as_the_archive_is_not_taken(locked: Path, tmp_path: Path) -> None:
    passed_on = tmp_path / "archive"
    passed_on.write_bytes(bytes(1 << 20))
    digest, size = hashlib.sha256(bytes(1 << 20)).hexdigest(), manifest_of(locked).archive_bytes
    received = {"here": {"path": str(passed_on), "sha256": digest, "size": size}}
    done = install(tmp_path, locked, python_env_received=received)
    assert done.ok, done.failures
    assert done.returned["here"]["Copy the environment's wheels"]["changed"]
    assert not passed_on.exists()


def test_locking_again_is_done_at_once_and_gives_the_same(locked: Path) -> None:
    requirements = (locked.parent / "requirements.txt",)
    before = (locked / MANIFEST).stat().st_mtime_ns
    again = lock(LockRequest(requirements, locked, NODE_PYTHON))
    assert not again.is_new
    assert (locked / MANIFEST).stat().st_mtime_ns == before
    assert set(again.manifest.packages) == {"six", "tabulate"}
    assert "://" not in (locked / "requirements.lock").read_text()


def test_a_lock_that_was_edited_is_made_again_and_reported_as_new(locked: Path) -> None:
    whole = (locked / "requirements.lock").read_text()
    (locked / "requirements.lock").write_text(whole.replace("six==", "sixx=="))
    again = lock(LockRequest((locked.parent / "requirements.txt",), locked, NODE_PYTHON))
    assert again.is_new
    assert (locked / "requirements.lock").read_text() == whole


def test_requirements_without_a_wheel_are_refused_in_pips_words(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("six==0.0.0.1\n")
    with pytest.raises(UsageError) as caught:
        lock(LockRequest((tmp_path / "requirements.txt",), tmp_path / "environment"))
    assert "six==0.0.0.1" in "\n".join(caught.value.evidence)
    assert not (tmp_path / "environment").exists()
