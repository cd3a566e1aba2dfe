"""The fix for a login shell that prints does its work in real shells, where they are installed."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from pylaunch.checks.hosts.reach import _INTERACTIVE

RC_FILES = {"bash": ".bashrc", "tcsh": ".cshrc", "csh": ".cshrc"}
"""The file that each shell reads before a command. Bash does so only for sshd; here, BASH_ENV names the file."""


@pytest.mark.parametrize("name", [name for name in RC_FILES if shutil.which(name)])
def test_what_an_rc_file_prints_at_the_place_of_the_fix_is_not_in_the_connection(name: str, tmp_path: Path) -> None:
    shell = shutil.which(name) or name
    rc_file = tmp_path / RC_FILES[name]
    rc_file.parent.mkdir(parents=True, exist_ok=True)
    words = [shell, "-c", "exec echo command"]
    environment = {**os.environ, "HOME": str(tmp_path), "BASH_ENV": str(rc_file), "XDG_CONFIG_HOME": ""}
    printed = []
    of_sh, _, of_csh = _INTERACTIVE.partition("below: ")[2].removesuffix(")").partition(" (csh: ")
    for lines in (["echo Welcome"], [of_csh if name.endswith("csh") else of_sh, "echo Welcome"]):
        rc_file.write_text("\n".join(lines) + "\n")
        ended = subprocess.run(words, env=environment, capture_output=True, text=True, check=True, timeout=60)
        printed.append((ended.stdout, ended.stderr))
    assert printed == [("Welcome\ncommand\n", ""), ("command\n", "")]
