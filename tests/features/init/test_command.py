"""Interpreters and directories that are looked for."""

from pathlib import Path

import pytest

from pylaunch.errors import UsageError
from pylaunch.features.init import command
from pylaunch.features.init.gather import GatheredHosts
from pylaunch.model.cluster import Host, SshOptions


def test_conda_is_looked_for_in_the_homes_of_the_users_on_the_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", lambda: Path("/home/me"))
    users = {"n1": "ada", "n2": "root", "n3": None}
    source = GatheredHosts(tuple(Host(name, name, ssh=SshOptions(user)) for name, user in users.items()), {}, ())
    conda = [each for each in command._interpreters(None, source) if each.endswith("/miniconda3/bin/python")]
    assert conda == [f"{home}/miniconda3/bin/python" for home in ("/home/ada", "/root", "/home/me")]
    assert {"/home/ada", "/root", "/home/me"} <= set(command._directories(source))


def test_a_file_that_exists_leads_to_the_page_about_further_hosts(tmp_path: Path) -> None:
    (tmp_path / "cluster.ini").touch()
    with pytest.raises(UsageError, match="nothing is replaced") as refused:
        command._refuse(tmp_path / "cluster.ini", GatheredHosts((Host("n1", "n1"),), {}, ()), None)
    assert refused.value.hint == "to add hosts to it: pylaunch help add-or-replace-a-node"


@pytest.mark.parametrize(
    ("files", "bare", "steps"),
    [
        ({}, "/usr/bin/python3", ["pylaunch start -- hostname"]),
        ({"train.py": "import torch"}, None, ["pylaunch start --sync . -- train.py"]),
        ({"main.py": "import os, helper", "helper.py": ""}, "/usr/bin/python3",
         ["pylaunch start --sync . --python /usr/bin/python3 -- main.py"]),
        ({"train.py": "import torch, numpy.linalg", "requirements.txt": ""}, "/usr/bin/python3",
         ["pylaunch provision --roles python_env    # or your own: pylaunch_python= in the inventory",
          "pylaunch start --sync . -- train.py"]),
        ({"train.py": "import torch, numpy.linalg"}, "/usr/bin/python3",
         ["printf '%s\\n' numpy torch > requirements.txt    # what train.py imports",
          "pylaunch provision --roles python_env    # or your own: pylaunch_python= in the inventory",
          "pylaunch start --sync . -- train.py"]),
    ],
)  # fmt: skip
def test_the_next_steps_run_in_the_directory_as_it_is(
    files: dict[str, str], bare: str | None, steps: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert command.next_steps(tmp_path, bare) == steps
