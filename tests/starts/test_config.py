"""`pylaunch config show` names the flag or the file that the inventory in use comes from."""

import json
from pathlib import Path

import pytest

from pylaunch.cli import main
from pylaunch.errors import ExitCode
from tests.json_pages import described, paths_of

INI = """\
[cluster]
gpu01 ansible_host=10.0.0.1 gpus=8 pylaunch_python=/opt/{{inventory_hostname}}/bin/python
"""


CONTAINER = '[container]\nimage = "torch.tar"\nmounts = ["/data:/data:ro", "/a:/b"]\n'


@pytest.mark.parametrize(
    ("words", "settings", "origin"),
    [
        (("-i", "other.ini"), 'inventory = "named.ini"', "-i"),
        (("-H", "gpu01"), "", "-H"),
        ((), 'inventory = "named.ini"', "pylaunch.toml"),
        ((), "", "cluster.ini in this directory"),
    ],
)
def test_the_inventory_has_the_flag_or_the_file_that_names_it(
    words: tuple[str, ...], settings: str, origin: str,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    for name in ("cluster.ini", "named.ini", "other.ini"):
        (tmp_path / name).write_text(INI)
    (tmp_path / "pylaunch.toml").write_text(f'{settings}\n[env]\nname = "vision"\n{CONTAINER}')
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert main.run(["config", "show", *words, "--json"]) == ExitCode.DONE
    shown = json.loads(capsys.readouterr().out)
    sources = {each["name"]: each["source"] for each in shown["settings"]}
    assert sources["inventory"] == origin
    assert sources["env.name"] == "pylaunch.toml"
    of_container = [tuple(each.values())[:3] for each in shown["settings"] if each["name"].startswith("container.")]
    assert of_container == [
        ("container.image", "torch.tar", "pylaunch.toml"),
        ("container.mounts", "/data:/data:ro", "pylaunch.toml"),
        ("container.mounts", "/a:/b", "pylaunch.toml"),
    ]
    assert (sources["records of runs"], sources["cache"]) == ("XDG_STATE_HOME", "default")
    assert {path for path, _ in paths_of(shown["settings"], "settings")} <= described("pylaunch config show") | {
        "settings[].hosts[]"
    }
    if origin != "-H":
        file = "other.ini" if origin == "-i" else "named.ini" if origin == "pylaunch.toml" else "cluster.ini"
        assert sources["pylaunch_python"] == f"{file}:2"
        assert "/opt/gpu01/bin/python" in [each["value"] for each in shown["settings"]]
