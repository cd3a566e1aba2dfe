"""`pylaunch push hf:…` with the real huggingface_hub of nodes that are directories, and a hub on loopback."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pylaunch.errors import ExitCode
from tests.files import content_below
from tests.starts.cluster import DirectoryCluster, ended, made_of_directories
from tests.starts.hub_server import COMMIT, Hub, serving
from tests.starts.test_push import PushCluster
from tests.waiting import wait_until

RELEASE, CONTINUES = "2.4.0", "0.36.0"
"""Of huggingface_hub; the second one continues a part of a file."""

CHUNK = 10 << 20
"""Bytes that it writes at once."""

TOKEN = "hf_abcdefghijklmnopqrstuvwxyz"
FILES = {
    "config.json": b"{}",
    "sub/model.safetensors": os.urandom(24 << 20),
    "empty": b"",
    "last.bin": b"x" * (1 << 20),
}
SNAPSHOT = f"models--org--model/snapshots/{COMMIT}"

_PYTHON = """\
#!/bin/sh
cd {directory} || exit 1
echo $$ > pid
export XDG_CACHE_HOME={directory}/.cache HF_ENDPOINT={endpoint} PYTHONPATH={packages} PATH={directory}/bin:/usr/bin:/bin
exec /usr/bin/python3 "$@"
"""
_LOAD = (
    "import sys, huggingface_hub; "
    "print(huggingface_hub.snapshot_download(sys.argv[1], repo_type=sys.argv[2], local_files_only=True))"
)


@pytest.fixture(scope="module")
def packages(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with huggingface_hub."""
    directory = tmp_path_factory.mktemp("packages")
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--target", str(directory))
    subprocess.run((*pip, f"huggingface_hub=={getattr(request, 'param', RELEASE)}"), check=True, timeout=300)
    return directory


@pytest.fixture
def hub() -> Iterator[Hub]:
    with serving(Hub(FILES)) as running:
        yield running


@pytest.fixture
def cluster(tmp_path: Path, packages: Path, hub: Hub) -> PushCluster:
    """Three nodes, of which n1 lacks huggingface_hub."""
    made: DirectoryCluster = made_of_directories(tmp_path, ("n1", "n2", "n3"))
    for name, node in made.nodes.items():
        there = "/nothing" if name == "n1" else packages
        script = _PYTHON.format(directory=node.path, endpoint=hub.endpoint, packages=there)
        (node.path / "python3").write_text(script)
        if name != "n1":
            (node.path / "bin").mkdir()
            (node.path / "bin/hf").symlink_to(packages / "bin/hf")
    return PushCluster(made.inventory, made.state, made.nodes)


def loaded(cluster: PushCluster, name: str, packages: Path, repository: str, kind: str = "model") -> Path:
    """Return where a program on a node finds the repository without a network."""
    env = {"PYTHONPATH": str(packages), "HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(cluster.nodes[name].path / "hub")}
    words = (sys.executable, "-c", _LOAD, repository, kind)
    return Path(subprocess.run(words, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout.strip())


def test_one_node_downloads_a_model_and_every_host_finds_it_without_a_network(
    cluster: PushCluster, hub: Hub, packages: Path
) -> None:
    other = cluster.nodes["n2"].path / "hub/models--org--model/blobs/other.incomplete"
    other.parent.mkdir(parents=True)
    other.write_text("of a download of somebody else")
    process = ended(cluster.push("hf:org/model", "./hub"), code=ExitCode.DONE)
    cache = cluster.nodes["n2"].path / "hub"
    assert f"hf:org/model is {cache / SNAPSHOT}" in process.stderr
    assert f"--env HF_HUB_CACHE={cache} --env HF_HUB_OFFLINE=1 -- train.py" in process.stderr
    assert sorted(request for request in hub.requests if request.startswith("GET")) == [
        f"GET {path}" for path in sorted(FILES) if FILES[path]
    ]
    for name in cluster.nodes:
        found = loaded(cluster, name, packages, "org/model")
        assert found == cluster.nodes[name].path / "hub" / SNAPSHOT
        assert {path: (found / path).read_bytes() for path in FILES} == FILES
        assert (found / "sub/model.safetensors").is_symlink()
    assert not list(cluster.nodes["n1"].path.glob("hub/**/*.incomplete"))
    assert not (cluster.nodes["n1"].path / "hub/.locks").exists()
    done = cluster.pushed("n3:hf:datasets/org/data", "hub/")
    assert (done["source"], [host["host"] for host in done["hosts"]]) == ("n3", ["n1", "n2"])
    assert done["snapshot"] == str(cluster.nodes["n3"].path / f"hub/datasets--org--data/snapshots/{COMMIT}")
    assert loaded(cluster, "n1", packages, "org/data", "dataset").is_dir()
    alone = ended(cluster.push("--limit", "n2", "hf:org/model@main"), code=ExitCode.DONE)
    assert f"hf:org/model@main is {cluster.nodes['n2'].path}/.cache/huggingface/hub/{SNAPSHOT}" in alone.stderr


@pytest.mark.parametrize(("packages", "rest"), [(RELEASE, ""), (CONTINUES, f" bytes={CHUNK}-")], indirect=["packages"])
def test_after_ctrl_c_the_download_ends_on_the_node_and_the_same_command_continues_it(
    cluster: PushCluster, hub: Hub, packages: Path, rest: str
) -> None:
    hub.held = "sub/model.safetensors"
    process = cluster.push("hf:org/model", "hub")
    blobs = cluster.nodes["n2"].path / "hub/models--org--model/blobs"

    def waits() -> bool:
        sizes = {path: len(content) for path, content in content_below(blobs).items()}
        return len(sizes) == len(FILES) and [sizes[path] for path in sizes if path.suffix == ".incomplete"] == [CHUNK]

    wait_until(waits, "the other files are there, and the first part of this one")
    assert process.stderr is not None
    line = process.stderr.readline()
    assert line.startswith("push: n2 has downloaded ")
    assert line.endswith(" of 25 MiB\n")
    process.send_signal(signal.SIGINT)
    ended(process, code=ExitCode.INTERRUPTED)
    pid = int((cluster.nodes["n2"].path / "pid").read_text())
    assert not Path(f"/proc/{pid}").exists()
    assert [file.stat().st_size for file in blobs.glob("*.incomplete")] == ([CHUNK] if rest else [])
    hub.released.set()
    hub.requests.clear()
    ended(cluster.push("hf:org/model", "hub"), code=ExitCode.DONE)
    assert [request for request in hub.requests if request.startswith("GET")] == [f"GET sub/model.safetensors{rest}"]
    assert loaded(cluster, "n3", packages, "org/model").is_dir()


def test_a_repository_that_the_node_may_not_see_is_an_error_and_a_token_of_this_shell_opens_it(
    cluster: PushCluster, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.token = TOKEN
    refused = ended(cluster.push("hf:org/model", "hub"), code=ExitCode.USAGE)
    assert "error: n2: no model org/model at main that the login of n2 may see\n" in refused.stderr
    assert "hint: check the name; if it is private: the same command with --secret HF_TOKEN\n" in refused.stderr
    monkeypatch.setenv("HF_TOKEN", TOKEN[::-1])
    refused = ended(cluster.push("--secret", "HF_TOKEN", "hf:org/model", "hub"), code=ExitCode.CLUSTER_NOT_READY)
    assert "error: n2: the hub refuses HF_TOKEN for model org/model\n" in refused.stderr
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    gated = ended(cluster.push("--secret", "HF_TOKEN", "hf:org/gated", "hub"), code=ExitCode.CLUSTER_NOT_READY)
    assert "n2: model org/gated is gated, and HF_TOKEN has no access" in gated.stderr
    absent = ended(cluster.push("--secret", "HF_TOKEN", "hf:org/model@v9", "hub"), code=ExitCode.USAGE)
    assert "n2: no model org/model at v9 that HF_TOKEN may see" in absent.stderr
    opened = ended(cluster.push("--secret", "HF_TOKEN", "hf:org/model", "hub"), code=ExitCode.DONE)
    assert TOKEN not in opened.stderr
    assert not list(cluster.nodes["n2"].path.glob("**/token"))


def test_all_hosts_are_asked_at_once_and_the_first_one_downloads_although_it_answers_last(
    cluster: PushCluster, hub: Hub
) -> None:
    python, other = (cluster.nodes[name].path / at for name, at in (("n2", "python3"), ("n3", "pid")))
    waits = f"for i in $(seq 400); do [ -s {other} ] && break; sleep 0.05; done; [ -s {other} ] || exit 1"
    python.write_text(python.read_text().replace("#!/bin/sh\n", f"#!/bin/sh\n{waits}\n"))
    done = cluster.pushed("hf:org/model", "hub/")
    assert done["source"] == "n2"
    assert not Path(f"/proc/{int(other.read_text())}").exists()


def test_hosts_without_the_program_or_the_network_are_errors_with_the_next_step(cluster: PushCluster, hub: Hub) -> None:
    without = ended(cluster.push("--limit", "n1", "hf:org/model", "hub"), code=ExitCode.CLUSTER_NOT_READY)
    assert "error: n1: no program that downloads from the hub\n" in without.stderr
    python = cluster.nodes["n1"].path / "python3"
    python.rename(python.with_suffix(".gone"))
    ended(cluster.push("--limit", "n1,n2", "hf:org/none", "hub"), code=ExitCode.USAGE)  # n2 is asked, nevertheless.
    assert "n1: huggingface_hub is in none of /opt/pylaunch/current/bin/python, " in without.stderr
    assert "pylaunch env lock" in without.stderr
    python = cluster.nodes["n2"].path / "python3"
    python.write_text(python.read_text().replace(hub.endpoint, "http://127.0.0.1:9"))
    unreached = ended(cluster.push("hf:org/model", "hub"), code=ExitCode.CLUSTER_NOT_READY)
    assert "error: n2: it does not reach the hub\n" in unreached.stderr
