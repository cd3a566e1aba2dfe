"""Hosts on which the role firewall refuses to work."""

import runpy
from typing import Any

import pytest

from pylaunch.store import content


@pytest.fixture
def program() -> dict[str, Any]:
    """Names of the program."""
    return runpy.run_path(str(content.roles_directory() / "firewall/files/firewall.py"), run_name="program")


@pytest.mark.parametrize(
    ("active", "ufw", "command"),
    [(False, "yes", "ufw allow from ADDRESS"), (True, "no", "firewall-cmd --permanent"), (False, "no", None)],
)
def test_a_host_with_another_firewall_is_refused_with_the_command_to_type(
    program: dict[str, Any], active: bool, ufw: str, command: str | None
) -> None:
    refuse = program["refuse_other_firewalls"]
    refuse.__globals__.update(is_active=lambda unit: active, text_of=lambda path: f"# ufw\nENABLED={ufw}\n")
    if command is None:
        refuse()
        return
    with pytest.raises(program["RefusedError"], match=command):
        refuse()
