"""Ranks in containers: the user of the inventory can make one, and can mount images."""

from __future__ import annotations

import pytest
from testinfra.host import Host

from pylaunch.provision.state import RoleState

pytestmark = pytest.mark.role("container_engine")


@pytest.fixture
def wanted(state: RoleState) -> RoleState:
    """The role, where it is on."""
    if not state.packages:
        pytest.skip("no containers are wanted here (container_engine_enabled)")
    return state


def test_bubblewrap_makes_a_container(wanted: RoleState, host: Host) -> None:
    made = host.run("bwrap --die-with-parent --bind / / true")
    assert made.rc == 0, made.stderr


def test_images_can_be_mounted(wanted: RoleState, host: Host) -> None:
    if not wanted.modes:
        pytest.skip("images are directories (container_engine_packages)")
    assert host.exists("squashfuse")
    opened = host.run("exec 3<>/dev/fuse")
    assert opened.rc == 0, opened.stderr
