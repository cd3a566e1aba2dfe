"""Without root or nspawn a lab has local nodes, and says what they are not."""

import json
import sys
from pathlib import Path

from lab.lab import TOOL
from pylaunch.errors import ExitCode
from pylaunch.transport import process
from pylaunch.transport.process import Completed


def tool(*arguments: str) -> Completed:
    return process.run((*TOOL, *arguments))


def pylaunch(*arguments: str) -> Completed:
    return process.run((sys.executable, "-P", "-c", "from pylaunch.cli.main import main; main()", *arguments))


def test_local_nodes_are_directories_and_say_so_and_a_job_runs_across_them(lab_name: str, tmp_path: Path) -> None:
    inventory = tmp_path / "cluster.ini"
    up = tool("up", "--local", "--name", lab_name, "--nodes", "2", "--inventory-out", str(inventory)).checked()
    assert up.stdout == f"{inventory}\n"
    assert "not machines of their own" in up.stderr
    ansible = (str(Path(sys.executable).with_name("ansible-inventory")), "-i", str(inventory), "--list")
    hosts = json.loads(process.run(ansible).checked().stdout)["_meta"]["hostvars"]
    assert list(hosts) == ["n1", "n2"]
    assert hosts["n1"]["ansible_connection"] == "local"
    assert hosts["n1"]["interface"] == "lo"
    assert hosts["n1"]["pylaunch_node_root"] != hosts["n2"]["pylaunch_node_root"]
    assert Path(hosts["n2"]["pylaunch_node_root"]).is_dir()
    status = tool("status", "--name", lab_name, "--json").checked()
    assert [node["state"] for node in json.loads(status.stdout)["hosts"]] == ["local", "local"]
    refused = tool("fault", "cut", "n1", "--name", lab_name)
    assert (refused.returncode, f"lab {lab_name} has local nodes" in refused.stderr) == (3, True)
    job = ("--workdir", "/", "--framework", "command", "--", "sh", "-c", "echo $RANK of $WORLD_SIZE")
    run = pylaunch("start", "-i", str(inventory), *job)
    assert run.returncode == ExitCode.DONE, run.stderr
    assert sorted(run.stdout.splitlines()) == ["n1:0 | 0 of 2", "n2:1 | 1 of 2"]
    tool("down", "--name", lab_name).checked()
    assert not Path(hosts["n2"]["pylaunch_node_root"]).exists()
