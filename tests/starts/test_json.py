"""Every document is as docs/reference/json.md says, also where a host could not be asked and where something failed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pylaunch.errors import ExitCode
from tests.json_pages import documented
from tests.starts.cluster import DirectoryCluster, ended


@pytest.fixture
def cluster(directories: Callable[..., DirectoryCluster]) -> DirectoryCluster:
    """n1 and n2; n3 refuses every connection."""
    made = directories("n1", "n2")
    text = made.inventory.read_text().replace(
        "\n\n", "\nn3 ansible_connection=ssh ansible_port=9 ansible_user=nobody\n\n"
    )
    made.inventory.write_text(text)
    return made


def document(cluster: DirectoryCluster, *words: str, code: int = ExitCode.DONE) -> dict[str, Any]:
    """The one document that `pylaunch WORDS --json` prints, which is as the page says."""
    done = cluster.run(*words, code=code)
    found = documented(done.stdout, f"pylaunch {words[0]}")
    assert (found["verb"], found["exit_code"]) == (words[0], code)
    return found


def entries(found: dict[str, Any]) -> dict[str, Any]:
    return {each["host"]: each for each in found["hosts"]}


def test_hosts_that_cannot_be_asked_are_entries_with_their_reason(cluster: DirectoryCluster) -> None:
    inventory = ("-i", str(cluster.inventory), "--json")
    for verb, code in [
        (("check", *inventory, "--only", "limits"), ExitCode.CLUSTER_NOT_READY),
        (("gpus", *inventory), ExitCode.CLUSTER_NOT_READY),
        (("clean", *inventory), ExitCode.CLUSTER_NOT_READY),
        (("ps", *inventory), ExitCode.DONE),
        (("provision", *inventory, "--plan", "--roles", "gpu_node"), ExitCode.CLUSTER_NOT_READY),
    ]:
        found = document(cluster, *verb, code=code)
        hosts = entries(found)
        assert list(hosts) == ["n1", "n2", "n3"], verb
        assert "ssh" in hosts["n3"]["unreachable"], verb
        assert hosts["n1"]["unreachable"] is None, verb


def test_a_start_and_what_follows_it_are_documents(cluster: DirectoryCluster) -> None:
    words = ("-i", str(cluster.inventory), "--nodes", "2", "--framework", "command", "--workdir", "/", "--json")
    plan = document(cluster, "start", *words, "--dry-run", "--", "echo", "hello")["plan"]
    assert [node["host"] for node in plan["nodes"]] == ["n1", "n2"]

    started = cluster.run("start", *words, "--", "sh", "-c", "echo hello; exit $RANK")
    found = documented(started.stdout, "pylaunch start")
    *events, _ = map(json.loads, started.stdout.splitlines())
    assert {each["event"]["rank"] for each in events if each["event"]["kind"] == "rank_started"} == {0, 1}
    assert {each["run"] for each in events} == {found["run"]}
    assert "| hello" in started.stderr
    assert (found["status"], found["exit_code"]) == ("failed", started.returncode)
    assert (found["outcome"]["first_failure"]["rank"], found["outcome"]["first_failure"]["host"]) == (1, "n2")
    assert [each["clean"] for each in found["outcome"]["hosts"]] == [True, True]

    run = found["run"]
    (listed,) = document(cluster, "ps", "--all", "--json")["runs"]
    assert (listed["run"], listed["hosts"]) == (run, ["n1", "n2"])
    assert document(cluster, "status", run, "--json")["outcome"] == found["outcome"]


def test_following_a_run_is_a_stream_of_its_events_with_the_run_at_the_end(
    directories: Callable[..., DirectoryCluster], tmp_path: Path
) -> None:
    cluster, gate = directories("n1"), tmp_path / "gate"
    waits = f"echo hello; while [ ! -e {gate} ]; do sleep 0.05; done; exit 3"
    assert cluster.start("--detach", "--", "sh", "-c", waits).wait(60) == ExitCode.DONE
    (run,) = cluster.outcomes()
    attached = cluster.begin("attach", run, "--json")
    assert attached.stdout is not None
    first = attached.stdout.readline()
    gate.touch()
    done = ended(attached, code=ExitCode.JOB_FAILED)
    *events, last = [documented(line, "pylaunch attach") for line in (first, *done.stdout.splitlines())]
    assert {each["event"]["kind"] for each in events} >= {"attached", "rank_ended"}
    assert (last["run"], last["status"], last["exit_code"]) == (run, "failed", ExitCode.JOB_FAILED)
    assert "| hello" in done.stderr


def test_the_explanation_of_a_run_is_a_document(cluster: DirectoryCluster) -> None:
    words = ("-i", str(cluster.inventory), "--nodes", "2", "--framework", "command", "--workdir", "/", "--json")
    lines = (
        "Traceback (most recent call last):",
        '  File "train.py", line 3',
        "OSError: [Errno 28] No space left on device",
    )
    raised = "; ".join(f"echo '{line}' >&2" for line in lines)
    script = f"test $RANK = 0 || {{ {raised}; exit 1; }}; sleep 600"
    started = cluster.run("start", *words, "--", "sh", "-c", script)
    run = documented(started.stdout, "pylaunch start")["run"]
    found = document(cluster, "explain", run, "--json")
    assert found["run"] == run
    (cause,) = found["causes"]
    assert (cause["cause"], cause["host"], cause["ranks"]) == ("storage-full", "n2", [1])
    (recorded, *_) = found["recorded_causes"]
    assert (recorded["kind"], recorded["class"]) == (cause["kind"], cause["cause"]) == ("storage", "storage-full")
    assert cause["evidence"][0]["text"].endswith("No space left on device")
    (stopped,) = document(cluster, "stop", run, "--json")["runs"]
    assert stopped["outcome"]["status"] == "failed"


def test_a_refused_start_is_a_document_with_its_error(cluster: DirectoryCluster) -> None:
    words = ("-i", str(cluster.inventory), "--framework", "command", "--workdir", "/", "--json")
    found = document(cluster, "start", *words, "--", "true", code=ExitCode.CLUSTER_NOT_READY)
    assert "n3: " in "\n".join(found["error"]["evidence"])
    assert (found["status"], found["outcome"]["status"]) == ("refused", "refused")


def test_without_a_run_only_the_live_one_of_this_inventory_is_meant(
    directories: Callable[..., DirectoryCluster], tmp_path: Path
) -> None:
    cluster = directories("n1", "n2")
    inventory = ("-i", str(cluster.inventory))
    gate = tmp_path / "gate"
    job = ("--framework", "command", "--workdir", "/", "--limit")
    waits = ("--", "sh", "-c", f"while [ ! -e {gate} ]; do sleep 0.05; done")
    ended(cluster.start("--limit", "n1", "--", "true"), code=ExitCode.DONE)
    past = json.loads(cluster.run("ps", "--all", "--json").stdout)["runs"][0]["run"]
    newest = cluster.run("logs", *inventory, code=ExitCode.DONE)
    assert f"the newest run: {past}  done, started " in newest.stderr
    for verb in ("stop", "attach", "status"):
        asked = cluster.run(verb, *inventory)
        assert (asked.returncode, past in asked.stderr) == (ExitCode.USAGE, verb != "stop"), asked.stderr
        assert f"no run of the inventory {cluster.inventory} is live" in asked.stderr

    first = cluster.run("start", *inventory, *job, "n1", "--detach", "--json", *waits)
    run = json.loads(first.stdout)["run"]
    assert f"run {run}: running" in cluster.run("status", *inventory).stdout
    # Without the inventory it is another project's.
    elsewhere = cluster.run("stop", code=ExitCode.USAGE)
    assert f"{run}  running" in elsewhere.stderr
    assert f"hint: pylaunch stop {run}" in elsewhere.stderr

    second = json.loads(cluster.run("start", *inventory, *job, "n2", "--detach", "--json", *waits).stdout)["run"]
    several = cluster.run("stop", *inventory, "--json", code=ExitCode.USAGE)
    assert {line.split()[0] for line in json.loads(several.stdout)["error"]["evidence"]} == {run, second}
    assert cluster.run("stop", "--all").returncode == ExitCode.DONE
