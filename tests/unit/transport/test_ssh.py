from __future__ import annotations

import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pylaunch.errors import ClusterNotReadyError
from pylaunch.model.cluster import Connection, Host, SshOptions
from pylaunch.transport import connection_identity, ssh
from pylaunch.transport.host_keys import Route

CASES = sorted((Path(__file__).parents[2] / "cases" / "ssh_failures").glob("*.yaml"))
LONGEST_SOCKET_NAME = "/" + (connection_identity.LENGTH + 40) * "f" + "." + 16 * "x"


@pytest.fixture(autouse=True)
def runtime_directory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A short one: pytest's own directories are too long for a socket."""
    with tempfile.TemporaryDirectory(prefix="pl") as directory:
        monkeypatch.setenv("XDG_RUNTIME_DIR", directory)
        yield Path(directory)


@pytest.mark.parametrize("file", CASES, ids=[file.stem for file in CASES])
def test_a_recorded_failure_of_ssh_is_told_with_its_reason_and_what_to_do(file: Path) -> None:
    case: dict[str, Any] = yaml.safe_load(file.read_text())
    address = case["host"].pop("address")
    arguments = tuple(case["host"].pop("common_args", ()))

    failure = ssh.explain_failure(
        Host("n1", address, ssh=SshOptions(**case["host"], common_args=arguments)), case["stderr"]
    )

    assert (failure.reason, failure.hint) == (case["reason"], case["hint"])


def test_an_unknown_failure_is_told_in_ssh_s_own_last_words() -> None:
    failure = ssh.explain_failure(Host("n1", "10.0.0.1"), "banner\nsomething new happened\n\n")

    assert failure == ssh.SshFailure("ssh 10.0.0.1: something new happened", None)


def test_silence_is_told_too() -> None:
    failure = ssh.explain_failure(Host("n1", "10.0.0.1"), "")
    assert failure.reason == "ssh 10.0.0.1: ssh ended without a word"
    assert failure.hint == "check that n1 is up"


def test_a_local_host_runs_the_command_itself() -> None:
    host = Host("here", "127.0.0.1", connection=Connection.LOCAL)

    assert ssh.command(host, None, ("echo", "a b")) == ("echo", "a b")


def test_options_stand_before_the_user_s_own_words_so_that_host_keys_stay_checked() -> None:
    host = Host("n1", "10.0.0.1", ssh=SshOptions(common_args=("-o", "StrictHostKeyChecking=no")))

    words = ssh.command(host, None, ("true",))

    assert words.index("StrictHostKeyChecking=yes") < words.index("StrictHostKeyChecking=no")


def test_the_options_survive_being_one_line_for_ansible() -> None:
    words = ssh.options('/srv/a "strange" \\ 100% project/known_hosts')

    assert tuple(shlex.split(shlex.join(words))) == words


def test_connections_are_kept_in_the_runtime_directory(runtime_directory: Path) -> None:
    assert ssh.control_directory().parent == runtime_directory


def test_a_long_runtime_directory_is_passed_over_for_one_in_which_a_socket_fits(
    runtime_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = runtime_directory / ("d" * 60)
    long.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))

    assert len(str(ssh.control_directory()) + LONGEST_SOCKET_NAME) <= 107


def test_a_control_directory_that_others_can_enter_is_refused() -> None:
    ssh.control_directory().chmod(0o755)

    with pytest.raises(ClusterNotReadyError, match="open to others"):
        ssh.control_directory()


@pytest.mark.parametrize("is_link", [False, True])
def test_a_control_directory_that_is_none_is_refused(runtime_directory: Path, is_link: bool) -> None:
    directory = ssh.control_directory()
    directory.rmdir()
    if is_link:
        directory.symlink_to(runtime_directory / "nowhere")
    else:
        directory.touch()
    with pytest.raises(ClusterNotReadyError, match="is no directory that SSH connections can be kept in"):
        ssh.control_directory()


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("hostname 10.0.0.1\nport 22\n", Route("10.0.0.1", 22, "10.0.0.1", proxied=False)),
        ("hostname 10.0.0.1\nport 2222\n", Route("10.0.0.1", 2222, "[10.0.0.1]:2222", proxied=False)),
        ("hostname h\nport 2222\nhostkeyalias node7\n", Route("h", 2222, "node7", proxied=False)),
        ("hostname h\nport 22\nproxyjump a,b\n", Route("h", 22, "h", proxied=True)),
        ("hostname h\nport 22\nproxycommand nc %h %p\n", Route("h", 22, "h", proxied=True)),
        ("hostname h\nport 22\nproxycommand none\nproxyusefdpass no\n", Route("h", 22, "h", proxied=False)),
    ],
)
def test_openssh_s_configuration_says_where_a_host_is(said: str, expected: Route) -> None:
    assert Route.parse(said) == expected
