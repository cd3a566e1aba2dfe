"""The guide to the roles without pylaunch, typed on provisioned nodes."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pylaunch.inventory import load_cluster
from tests.documents import ROOT
from tests.roles.conftest import Provisioned

GUIDE = ROOT / "docs/guides/roles-alone.md"


@pytest.fixture
def sockets() -> Iterator[str]:
    """A directory for sockets of SSH, whose paths may have 108 bytes: that of the test may be too long."""
    with tempfile.TemporaryDirectory() as directory:
        yield directory


def test_the_lines_of_the_guide_do_what_it_says(provisioned: Provisioned, tmp_path: Path, sockets: str) -> None:
    lab, text = provisioned.lab, GUIDE.read_text()
    (tmp_path / "clocks.yml").write_text(re.findall("```yaml\n(.*?)```", text, re.DOTALL)[0])
    (tmp_path / "cluster.ini").write_text(lab.inventory.read_text())
    (tmp_path / ".pylaunch").symlink_to(lab.inventory.parent / ".pylaunch")
    subprocess.run([ROOT / "scripts/collection", tmp_path / "dist"], check=True, stdout=subprocess.DEVNULL)
    known = load_cluster(lab.inventory).known_hosts
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(tmp_path),
        "ANSIBLE_HOME": str(tmp_path / "ansible"), "ANSIBLE_SSH_COMMON_ARGS": f"-oGlobalKnownHostsFile={known}",
        "ANSIBLE_SSH_CONTROL_PATH_DIR": sockets,
        # One role of the playbook is enough to show that its lines work; roles without tags run.
        "ANSIBLE_SKIP_TAGS": ",".join({each.name for each in (ROOT / "roles").iterdir()} - {"time_sync"}),
        **dict(re.findall(r"^    export (\w+)=(\S+)$", text, re.MULTILINE)),
    }  # fmt: skip
    outputs = {}
    for line in re.findall("^    (ansible.*)$", text, re.MULTILINE):
        done = subprocess.run(line.split(), cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        outputs[line] = done.stdout
    checked, run = (
        outputs[f"ansible-playbook -i cluster.ini pylaunch.cluster.site{how}"] for how in (" --check --diff", "")
    )
    for output in (checked, run):
        assert re.findall(r"changed=(\d+)", output) == ["0", "0", "0"], output
    assert re.findall(r"changed=(\d+)", outputs["ansible-playbook -i cluster.ini clocks.yml"]) != ["0", "0", "0"]
    assert "server ntp1.example.com" in lab["n2"].read("/etc/chrony/conf.d/90-pylaunch.conf")
    planned = lab.pylaunch("provision", "-i", str(lab.inventory), "--roles", "time_sync", "--plan")
    assert "time_sync  inputs  are not those that the host was provisioned with" in re.sub(
        " {2,}", "  ", planned.stdout
    )
    assert "  time_sync: Configure chrony: would change on n[1-3]" in planned.stderr
    assert lab.pylaunch("provision", "-i", str(lab.inventory), "--roles", "time_sync").ok
