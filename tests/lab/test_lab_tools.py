"""Programs that labs need are installed once, however many labs are made at the same moment."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lab.images import tools

APT_GET = """\
#!/bin/sh
mkdir {directory}/busy || {{ echo 'E: Could not get lock'; exit 100; }}
sleep 0.2
[ "$1" = update ] || {{ echo "$*" >> {directory}/calls; : > {directory}/lab-tool; chmod 755 {directory}/lab-tool; }}
rmdir {directory}/busy
"""


def test_labs_that_are_made_at_the_same_moment_install_what_is_missing_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apt_get = tmp_path / "apt-get"
    apt_get.write_text(APT_GET.format(directory=tmp_path))
    apt_get.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(tools, "PACKAGE_OF", {"lab-tool": "lab-tools"})
    reports: list[str] = []
    with ThreadPoolExecutor(3) as labs:
        for ended in [labs.submit(tools.ensure, reports.append) for _ in range(3)]:
            ended.result()
    assert (tmp_path / "calls").read_text() == "install -y -q --no-install-recommends lab-tools\n"
    assert reports == ["installing with apt (they stay installed): lab-tools"]
