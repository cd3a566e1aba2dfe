"""What the role firewall restores, and when it does not keep rules."""

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from pylaunch.store import content

CONFIRMED = "table inet pylaunch {}\n"


class Kernel:
    """The rules in force, as text; refuses scripts that contain `damaged`."""

    def __init__(self, refused: type[Exception]) -> None:
        self.rules = ""
        self.refused = refused

    def run(self, words: list[str], stdin: str = "") -> str:
        if words[:2] == ["nft", "--file"]:
            if "damaged" in stdin:
                raise self.refused("syntax error")
            self.rules = stdin
        return ""


@pytest.fixture
def program(tmp_path: Path) -> dict[str, Any]:
    """Names of the program, with its files in a directory of the test and a kernel of its own."""
    names = runpy.run_path(str(content.roles_directory() / "firewall/files/firewall.py"), run_name="program")
    kernel = Kernel(names["RefusedError"])
    own: dict[str, Any] = names["arm"].__globals__
    files = {each: str(tmp_path / each.lower()) for each in ("RUNTIME", "RULES", "WANTED", "CONFIRMED", "LIVE")}
    own.update(
        files, ARMED=files["RUNTIME"] + "/armed", kernel=kernel, run=kernel.run, listen=lambda within: 29599,
        stop_waiting=lambda: None, refuse_other_firewalls=lambda: None, own_ssh_port=lambda: 22,
        live_digest=lambda: kernel.rules if "{" in kernel.rules else None,
    )  # fmt: skip
    Path(own["RULES"]).write_text("table inet pylaunch { new }\n")
    Path(own["WANTED"]).write_text(json.dumps({"member_ports": ["29400-29599", "50000-50100"], "ssh_ports": [22]}))
    Path(own["CONFIRMED"]).write_text(CONFIRMED)
    kernel.rules = CONFIRMED
    return own


def test_the_confirmed_rules_come_back(program: dict[str, Any]) -> None:
    program["arm"](60)
    assert "new" in program["kernel"].rules
    program["restore"]()
    assert program["kernel"].rules == CONFIRMED


def test_without_readable_confirmed_rules_the_host_is_open(program: dict[str, Any]) -> None:
    Path(program["CONFIRMED"]).write_text("damaged")
    program["arm"](60)
    program["restore"]()
    assert program["kernel"].rules == program["WITHOUT_TABLE"]


def test_confirmed_rules_that_somebody_removed_do_not_come_back(program: dict[str, Any]) -> None:
    program["kernel"].rules = ""
    program["arm"](60)
    program["restore"]()
    assert program["kernel"].rules == program["WITHOUT_TABLE"]


def test_a_full_disk_does_not_keep_rules_that_the_next_boot_would_not_have(program: dict[str, Any]) -> None:
    token, write = program["arm"](60)["token"], program["write"]

    def full(path: str, text: str) -> None:
        if path == program["CONFIRMED"]:
            raise OSError(28, "No space left on device")
        write(path, text)

    program["write"] = full
    with pytest.raises(program["RefusedError"], match=r"the old ones were restored: .*No space left on device"):
        program["confirm"](token)
    assert program["kernel"].rules == CONFIRMED


def test_rules_that_close_the_port_of_ssh_to_all_but_a_controller_that_is_a_member_are_not_kept(
    program: dict[str, Any],
) -> None:
    program["own_ssh_port"] = lambda: 50022
    token = program["arm"](60)["token"]
    with pytest.raises(program["RefusedError"], match=r"SSH connects to port 50022, .* \(50000-50100\) would close"):
        program["confirm"](token)
    program["restore"]()
    assert program["kernel"].rules == CONFIRMED
