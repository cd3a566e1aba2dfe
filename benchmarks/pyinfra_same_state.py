"""The state that `pylaunch provision` keeps, as a pyinfra deploy; provision_noop.py runs it.

What pyinfra has no operation for is left out, in its favour: limits of a login, sizes of file systems, the digest of an
environment.
"""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

from pyinfra import host
from pyinfra.operations import apt, files, server, systemd

for state in json.loads(Path(os.environ["PYLAUNCH_BENCH_STATE"]).read_text())[host.name]:
    if state["packages"]:
        apt.packages(packages=state["packages"], no_recommends=True)
    for file in state["files"]:
        if not file["only_where"]:
            files.put(src=io.StringIO(file["content"]), dest=file["path"], mode=file["mode"], user="root", group="root")
    for block in state["blocks"]:
        # Its own marker lines: what is measured is reading the file and finding that nothing is to do.
        files.block(path=block["path"], content=block["content"], marker="# {mark} PYINFRA")
    for line in state["absent_lines"]:
        files.line(path=line["path"], line=line["regexp"], present=False)
    for key in ("net.core.somaxconn",):
        if key in state["sysctls"]:
            server.sysctl(key=key, value=int(state["sysctls"][key]))
    for unit in state["services"]:
        systemd.service(service=unit, running=True, enabled=True)
    for unit in state["absent_services"]:
        systemd.service(service=unit, running=False, enabled=False)
    for link in state["links"]:
        files.link(path=link["path"], target=link["target"])
