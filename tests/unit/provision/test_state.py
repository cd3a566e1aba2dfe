from __future__ import annotations

import pytest

from pylaunch.errors import ProvisionError
from pylaunch.provision.state import DesiredFile, DesiredFilesystem, parse_state


def test_rendered_data_becomes_typed_entries() -> None:
    state = parse_state(
        "role",
        {
            "files": [{"path": "/a", "mode": "0644", "content": "x"}],
            "filesystems": [{"path": "/dev/shm", "minimum_mib": "256"}],
            "sysctls": {"net.ipv4.tcp_rmem": "4096\t87380  6291456"},
        },
    )
    assert state.files == (DesiredFile("/a", "0644", "x"),)
    assert state.filesystems == (DesiredFilesystem("/dev/shm", 256),)
    assert state.sysctls == {"net.ipv4.tcp_rmem": "4096 87380 6291456"}


def test_a_misspelt_key_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ProvisionError, match="role_desired: unknown key 'file'") as caught:
        parse_state("role", {"file": []})
    assert caught.value.hint is not None
    assert "files" in caught.value.hint


def test_an_entry_that_lacks_a_field_names_it() -> None:
    with pytest.raises(ProvisionError, match=r"role_desired: files: .*'content'"):
        parse_state("role", {"files": [{"path": "/a", "mode": "0644"}]})
