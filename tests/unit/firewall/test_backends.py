"""Which firewall of a host the role firewall uses."""

import importlib
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from pylaunch.store import content

MODULES = ("host", "rules", "firewalld", "nftables", "backends")


@pytest.fixture
def backends(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module of the program: Python runs its directory, which is not a package."""
    monkeypatch.syspath_prepend(str(content.roles_directory() / "firewall" / "files" / "firewall"))
    yield importlib.import_module("backends")
    for name in MODULES:
        del sys.modules[name]


def test_a_host_with_ufw_is_refused_with_the_rules_to_type(
    backends: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backends, "is_active", lambda unit: False)
    monkeypatch.setattr(backends, "text_of", lambda path: "# ufw\nENABLED=no\n")
    assert backends.in_charge().name == "nftables"
    monkeypatch.setattr(backends, "text_of", lambda path: "# ufw\nENABLED=yes\n")
    with pytest.raises(backends.RefusedError, match="ufw allow from ADDRESS"):
        backends.in_charge()
