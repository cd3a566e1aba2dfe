"""State of what roles manage, read from files of this machine."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from pylaunch.agent.probe import managed
from pylaunch.agent.probe.managed import differences, how_differs, read_manifest
from pylaunch.agent.probe.readers.hosts import manifest

MANY = dict.fromkeys(map(str, range(3000)), "")


def entry(names: dict[str, list[str]]) -> dict[str, Any]:
    return {"inputs": "", "notes": [], "managed": managed.managed(names)}


def test_what_is_as_recorded_does_not_differ_and_each_change_is_named(tmp_path: Path) -> None:
    file, mode, gone, link, absent = (tmp_path / name for name in ("file", "mode", "gone", "link", "absent"))
    for each in (file, mode, gone):
        each.write_text("one\n")
        each.chmod(0o644)
    link.symlink_to("envs/1")
    recorded = entry({"path": [str(each) for each in (file, mode, gone, link, absent)]})
    assert differences(recorded) == []
    file.write_text("two\n")
    mode.chmod(0o600)
    gone.unlink()
    link.unlink()
    link.symlink_to("envs/2")
    absent.mkdir()
    owner = managed.managed({"path": [str(file)]})["path"][str(file)].split()[1]
    assert {Path(path).name: how for path, how in differences(recorded)} == {
        "file": "content differs",
        "mode": f"is 0600 {owner}, not 0644 {owner}",
        "gone": "missing",
        "link": "is a link to envs/2, not a link to envs/1",
        "absent": "is there, and must not be",
    }


def test_a_block_is_compared_without_the_lines_around_it(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost\n# BEGIN ours\n10.0.0.1 n1\n# END ours\n")
    names = {"block": [f"{hosts}\n# {{mark}} ours"], "line": [f"{hosts}\n127.0.1.1"]}
    recorded = entry(names)
    hosts.write_text("::1 other\n" + hosts.read_text())
    assert differences(recorded) == []
    hosts.write_text(hosts.read_text().replace("10.0.0.1", "10.0.0.2") + "127.0.1.1\tn1\n")
    assert differences(recorded) == [
        [str(hosts), "our block differs"],
        [str(hosts), "is with the line '127.0.1.1 n1', not without a line '127.0.1.1'"],
    ]
    hosts.write_text("")
    assert [str(hosts), "missing"] in differences(recorded)


def test_a_distribution_that_left_an_environment_is_a_difference(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to("/bin/sh")
    for name in ("six", "torch"):
        directory = tmp_path / "lib" / "python3.11" / "site-packages" / f"{name}-1.dist-info"
        directory.mkdir(parents=True)
        (directory / "RECORD").write_text(name)
    recorded = entry({"environment": [str(tmp_path)]})
    assert differences(recorded) == []
    (directory / "RECORD").unlink()
    assert differences(recorded) == [[str(tmp_path), "content differs"]]


def test_states_of_units_and_packages_are_differences_in_words() -> None:
    assert (
        how_differs("enabled and active", "enabled and inactive") == "is enabled and inactive, not enabled and active"
    )
    assert how_differs("installed", "not installed") == "not installed"
    assert how_differs("held", "not held") == "not held"
    assert how_differs("enabled and active", "missing") == "missing"


@pytest.mark.parametrize(
    "text",
    [
        "", "[" * 100000, "[]", "{}", '{"roles": []}', '{"roles": {"a": {}}}',
        '{"roles": {"a": {"inputs": 1, "notes": [], "managed": {}}}}',
        '{"roles": {"a": {"inputs": "", "notes": [], "managed": {"path": ["/etc/passwd"]}}}}',
        json.dumps({"roles": {"a": {"inputs": "", "notes": [], "managed": {"path": MANY}}}}),
    ],
)  # fmt: skip
def test_a_manifest_of_another_shape_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(ValueError, match=r"manifest.json"):
        read_manifest(str(tmp_path / "manifest.json"))


def test_what_a_manifest_names_is_read_and_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[list[str]] = []

    def recorded(words: list[str], names: list[str]) -> str:
        ran.append([*words, *names])
        return ""

    monkeypatch.setattr(managed, "_output", recorded)
    os.mkfifo(tmp_path / "fifo")
    hostile = {
        "path": {"/dev/zero": "", str(tmp_path / "fifo"): ""},
        "unit": {"--version": "", "a b; reboot": ""},
        "sysctl": {"../../etc/shadow": ""},
        "program": {"/bin/sh": ""},
    }
    found = differences({"inputs": "", "notes": [], "managed": hostile})
    assert [subject for subject, _ in found] == [
        "/dev/zero",
        str(tmp_path / "fifo"),
        "--version",
        "a b; reboot",
        "../../etc/shadow",
    ]
    assert ["../../etc/shadow", "not readable (not a kernel setting)"] in found
    assert [words[0] for words in ran] == ["systemctl"]
    assert managed._NAME.fullmatch("--version") is None
    assert managed._NAME.fullmatch("a b; reboot") is None
    assert manifest.reported("../../../tmp", None) == []


def test_the_answer_of_a_host_is_bounded(tmp_path: Path) -> None:
    notes = ["x" * 5000] * 500
    recorded = {"inputs": "", "notes": notes, "managed": {"path": {f"/none/{n}": "there" for n in range(1500)}}}
    (tmp_path / "manifest.json").write_text(json.dumps({"roles": {"role": recorded}}))
    answer = manifest.roles({"env_root": str(tmp_path), "is_privileged": False, "sudo_password": None})["role"]
    assert (len(answer["notes"]), len(answer["differences"])) == (manifest.MOST, manifest.MOST)
    assert max(map(len, answer["notes"])) == managed.MOST_CHARACTERS
