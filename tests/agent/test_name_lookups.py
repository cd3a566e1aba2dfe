"""Lookups of names on a host whose name server does not answer."""

import json
import subprocess
import sys
from pathlib import Path

from pylaunch.agent.probe.readers.hosts import reach
from pylaunch.checks.suite import _look
from pylaunch.probe.program import FROM_STDIN, probe

_SILENT_SERVER = """\
import os, socket, sys
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 53))
server.set_inheritable(True)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
"""Runs a Python beside a socket that receives queries and answers none."""


def test_a_name_server_that_does_not_answer_costs_its_names_only(tmp_path: Path) -> None:
    files = {
        "resolv.conf": "nameserver 127.0.0.1\n",
        "hosts": "10.0.0.1 n1\n",
        "nsswitch.conf": "hosts: files dns\n",
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    mounts = " && ".join(f"mount --bind {name} /etc/{name}" for name in files)
    words = ["unshare", "--mount", "--net", "sh", "-c", f'{mounts} && ip link set lo up && exec "$@"', "sh"]
    words += [sys.executable, "-c", _SILENT_SERVER, *FROM_STDIN]
    ended = subprocess.run(
        words, input=probe(reach.names.ask(["n2", "n1"])), capture_output=True, check=True, timeout=300, cwd=tmp_path
    )
    readings = _look(json.loads(ended.stdout)).readings
    assert readings[reach.names] == {"n2": None, "n1": ["10.0.0.1"]}
