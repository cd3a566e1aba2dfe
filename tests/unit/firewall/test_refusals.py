"""Hosts on which the role firewall refuses to work."""

import runpy
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from pylaunch.store import content

MODULES = ("host", "table")


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Names of the program: Python runs its directory, which is not a package."""
    directory = content.roles_directory() / "firewall" / "files" / "firewall"
    monkeypatch.syspath_prepend(str(directory))
    yield runpy.run_path(str(directory / "__main__.py"), run_name="program")
    for name in MODULES:
        del sys.modules[name]


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
