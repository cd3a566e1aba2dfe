"""Role python_env on this machine: what its module installs, refuses and leaves alone."""

import base64
import contextlib
import functools
import io
import json
import os
import shutil
import subprocess
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import asdict, replace
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pylaunch.agent.run.holdings import Holdings
from pylaunch.agent.shared import installed
from pylaunch.base.layout import NodeRoot
from pylaunch.errors import UsageError
from pylaunch.features.provision.environments.environment import MANIFEST, EnvironmentManifest, LockRequest, lock
from pylaunch.model.cluster import Cluster, Connection, Host
from pylaunch.protocol import NodeTask
from pylaunch.store import content
from pylaunch.transport.runner import PlaybookResult, PlaybookRun, run_playbook
from tests.node_python import NODE_PYTHON
from tests.wheels import download

HERE = Cluster((Host("here", "127.0.0.1", Connection.LOCAL),))


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment of two pure packages, one with a console script, beside a directory with its wheels."""
    directory = tmp_path_factory.mktemp("locked")
    (directory / "requirements.txt").write_text("-r more.txt\nsix==1.17.0\n")
    (directory / "more.txt").write_text("tabulate==0.9.0\n")
    lock(LockRequest((directory / "requirements.txt",), directory / "environment", NODE_PYTHON))
    download(directory / "environment", directory / "wheels")
    return directory / "environment"


@pytest.fixture
def source(locked: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    (tmp_path / "locked").mkdir()
    (tmp_path / "locked/wheels").symlink_to(locked.with_name("wheels"))
    return Path(shutil.copytree(locked, tmp_path / "locked/environment"))


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
            "python_env_index": [str(source.with_name("wheels"))],
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
    assert list((place / "root" / "envs").iterdir()) == [current.resolve()], "older ones are not kept"
    recorded = json.loads((current / installed.MARKER).read_text())["digest"]
    assert recorded == installed.installed_digest(str(current))

    again = install(place, source)
    assert again.ok
    assert not again.changes


def test_an_environment_that_was_changed_or_lost_its_interpreter_is_made_new(place: Path, source: Path) -> None:
    current = place / "root" / "current"
    (record,) = current.glob("lib/python*/site-packages/six-*.dist-info/RECORD")
    record.write_text("")
    assert install(place, source).changes
    (record,) = current.glob("lib/python*/site-packages/six-*.dist-info/RECORD")
    assert record.read_text()
    (current / "bin" / "python").unlink()
    assert install(place, source).ok
    subprocess.run([current / "bin" / "python", "-c", "import six"], check=True)


def test_a_wheel_that_was_changed_is_refused_and_the_current_environment_stays(source: Path, tmp_path: Path) -> None:
    (tmp_path / "root" / "envs" / "old").mkdir(parents=True)
    (tmp_path / "root" / "current").symlink_to("envs/old")
    wheels = Path(shutil.copytree(source.with_name("wheels"), tmp_path / "wheels"))
    (tabulate,) = wheels.glob("tabulate-*")
    (six,) = wheels.glob("six-*")
    with zipfile.ZipFile(six, "a") as archive:
        archive.writestr("six_more.py", "")
    message = failure_of(install(tmp_path, source, python_env_index=[str(wheels)]))
    assert message.startswith("uv pip failed: ")
    assert "Hash mismatch for `six==1.17.0`" in message
    tabulate.unlink()
    assert "tabulate" in failure_of(install(tmp_path, source, python_env_index=str(wheels)))
    assert (tmp_path / "root" / "current").readlink() == Path("envs/old")
    assert [path.name for path in (tmp_path / "root" / "envs").iterdir()] == ["old"]


def test_a_host_that_reaches_no_index_is_told_the_variable(source: Path, tmp_path: Path) -> None:
    uv = manifest_of(source).uv
    os.mkfifo(tmp_path / uv)  # Nobody writes to it.
    index = f"http://me:s3cret@127.0.0.1:9/simple, {tmp_path}, /nowhere"
    message = failure_of(install(tmp_path, source, python_env_index=index))
    assert message.startswith(f"cannot get {uv} (http://127.0.0.1:9/simple: [Errno 111] Connection refused; ")
    assert f"{tmp_path} has another file" in message
    assert "/nowhere: No such file or directory): set python_env_index to a package index or a directory" in message


class _Simple(SimpleHTTPRequestHandler):
    """An index of the wheels in a directory, for a user with a password: /simple/NAME/ links to them."""

    def send_head(self) -> Any:
        if self.headers.get("Authorization") != f"Basic {base64.b64encode(b'me:s3cret').decode()}":
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="wheels"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return None
        if not self.path.endswith("/"):
            return super().send_head()
        links = [f'<a href="../../{path.name}">{path.name}</a>' for path in Path(self.directory).glob("*.whl")]
        name = self.path.split("/")[-2]
        text = "".join(link for link in links if link.startswith(f'<a href="../../{name}-')).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        return io.BytesIO(text)


def test_wheels_come_from_an_index_that_wants_a_password_for_pages_and_files(source: Path, tmp_path: Path) -> None:
    handler = functools.partial(_Simple, directory=str(source.with_name("wheels")))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://me:s3cret@127.0.0.1:{server.server_address[1]}/simple"
        done = install(tmp_path, source, python_env_index=[url])
        server.shutdown()
    assert done.ok, done.failures
    subprocess.run([tmp_path / "root/current/bin/python", "-c", "import six, tabulate"], check=True)


def test_an_environment_is_built_on_one_with_the_same_wheels_unless_that_was_edited(
    locked: Path, tmp_path: Path
) -> None:
    assert install(tmp_path, locked).ok
    first = (tmp_path / "root/current").resolve()
    (tmp_path / "requirements.txt").write_text("six==1.16.0\ntabulate==0.9.0\n")
    lock(LockRequest((tmp_path / "requirements.txt",), tmp_path / "next/environment", NODE_PYTHON))
    wheels = Path(shutil.copytree(locked.with_name("wheels"), tmp_path / "wheels"))
    download(tmp_path / "next/environment", wheels)
    (tabulate,) = wheels.glob("tabulate-*")
    tabulate.rename(tmp_path / tabulate.name)
    assert install(tmp_path, tmp_path / "next/environment", python_env_index=str(wheels)).ok
    second = (tmp_path / "root/current").resolve()
    module = f"lib/python{NODE_PYTHON}/site-packages/tabulate/__init__.py"
    assert (second / module).samefile(first / module), "its wheel is not there any more"
    assert "1.16.0" in (second / f"lib/python{NODE_PYTHON}/site-packages/six.py").read_text()
    marker = json.loads((second / installed.MARKER).read_text())

    with (second / module).open("a") as file:
        file.write("# edited")
    altered: dict[str, Any] = {"python_env_altered_hosts": ["here"], "python_env_index": str(wheels)}
    assert "tabulate" in failure_of(install(tmp_path, tmp_path / "next/environment", **altered))
    (tmp_path / tabulate.name).rename(tabulate)
    assert install(tmp_path, tmp_path / "next/environment", **altered).ok
    assert "# edited" not in (second / module).read_text()
    assert "# edited" in (first / module).read_text()
    assert json.loads((second / installed.MARKER).read_text()) == marker


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
    (root / "envs" / ".new" / "of-an-interrupted-installation").mkdir(parents=True)
    vision = manifest_of(locked).id
    with used_by_a_run(root / "envs" / "used"):
        assert install(tmp_path, locked, **named).ok
        assert {path.name for path in (root / "envs").iterdir()} == {"of-current", "used", vision}
        assert f"a run uses the environment {root}/envs/used" in failure_of(install(tmp_path, locked, "reset", **named))
    assert (root / "named" / "vision").readlink() == Path("../envs") / vision
    subprocess.run([root / "named" / "vision" / "bin" / "python", "-c", "import six, tabulate"], check=True)

    assert install(tmp_path, locked, "reset").ok
    assert not (root / "current").is_symlink()
    assert {path.name for path in (root / "envs").iterdir()} == {"used", vision}
    assert install(tmp_path, locked, "reset", **named).changes[1:] == ()
    assert list(root.iterdir()) == []


def test_locking_again_is_done_at_once_and_gives_the_same(locked: Path) -> None:
    requirements = (locked.parent / "requirements.txt",)
    before = (locked / MANIFEST).stat().st_mtime_ns
    again = lock(LockRequest(requirements, locked, NODE_PYTHON))
    assert not again.is_new
    assert (locked / MANIFEST).stat().st_mtime_ns == before
    assert set(again.manifest.packages) == {"six", "tabulate", "uv"}
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
