import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pylaunch.errors import ClusterNotReadyError
from pylaunch.model.cluster import Connection, Host, SshOptions
from pylaunch.transport.connections import connector_of
from pylaunch.transport.host_keys import Route, _key_exchange
from pylaunch.transport.openssh.failures import explain_failure
from pylaunch.transport.openssh.sharing import control_directory
from pylaunch.transport.process import Completed

CASES = sorted((Path(__file__).parents[2] / "cases" / "ssh_failures").glob("*.yaml"))


@pytest.fixture(autouse=True)
def runtime_directory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Set a short runtime directory: a socket path does not fit in pytest's own."""
    with tempfile.TemporaryDirectory(prefix="pl") as directory:
        monkeypatch.setenv("XDG_RUNTIME_DIR", directory)
        yield Path(directory)


@pytest.mark.parametrize("file", CASES, ids=[file.stem for file in CASES])
def test_a_recorded_failure_of_ssh_gets_its_reason_and_hint(file: Path) -> None:
    case: dict[str, Any] = yaml.safe_load(file.read_text())
    address = case["host"].pop("address")
    arguments = tuple(case["host"].pop("common_args", ()))

    failure = explain_failure(
        Host("n1", address, ssh=SshOptions(**case["host"], common_args=arguments)), case["stderr"]
    )

    assert (failure.reason, failure.hint) == (case["reason"], case["hint"])


@pytest.mark.parametrize(("status", "reached"), [(255, False), (1, True), (127, True), (-9, True)])
def test_exit_status_255_alone_means_that_ssh_failed(status: int, reached: bool) -> None:
    ended = Completed(("ssh",), status, "", "ssh: connect to host 10.0.0.1 port 22: No route to host")

    failure = connector_of(Host("n1", "10.0.0.1"), None).failure(ended)

    assert (failure is None) == reached
    assert failure is None or "no route" in failure.reason


def test_a_connection_of_its_own_ignores_the_shared_one() -> None:
    connector = connector_of(Host("n1", "10.0.0.1"), None)

    assert "ControlMaster=auto" in connector.argv(("true",))
    assert "ControlMaster=auto" not in connector.argv(("true",), shared=False)
    assert "ControlPath=none" in connector.argv(("true",), shared=False)


def test_this_machine_runs_commands_without_a_connection() -> None:
    connector = connector_of(Host("here", "127.0.0.1", connection=Connection.LOCAL), None)

    assert connector.argv(("echo", "a b")) == ("echo", "a b")
    assert connector.failure(Completed(("false",), 255, "", "")) is None
    assert connector.timed_out(15).reason == "agent 127.0.0.1: no answer within 15 s"


def test_a_silent_host_whose_shared_connection_is_open_has_logged_in_and_its_shell_hangs() -> None:
    connector = connector_of(Host("n1", "10.0.0.1", ssh=SshOptions(user="ml")), None)
    down = connector.timed_out(15)
    assert (down.reason, down.hint) == ("ssh ml@10.0.0.1: no answer within 15 s", "check that n1 is up")
    assert not down.host_answers
    (control_directory() / f"{connector.identity}{'f' * 40}").touch()
    hangs = connector.timed_out(15)
    assert hangs.reason == "ssh ml@10.0.0.1: SSH logged in, but the command there did not answer within 15 s"
    assert "~/.bashrc" in (hangs.hint or "")
    assert "/usr/bin/python3" in (hangs.hint or ""), "the shell may have started it, and it hangs"
    assert hangs.host_answers
    assert not connector.timed_out(12).host_answers, "a dead connection may be closed only after 12 s"


def test_ansible_uses_the_connection_of_the_connector() -> None:
    remote = connector_of(Host("n1", "10.0.0.1"), None)
    (shared,) = (word for word in remote.argv(("true",)) if word.startswith("ControlPath="))

    assert connector_of(Host("here", "127.0.0.1", Connection.LOCAL), None).ansible_variables() == {
        "ansible_connection": "local"
    }
    assert remote.ansible_variables()["ansible_control_path"].replace("%%", "%") in shared


def test_the_options_precede_the_user_s_own_words_so_that_host_keys_stay_checked() -> None:
    host = Host("n1", "10.0.0.1", ssh=SshOptions(common_args=("-o", "StrictHostKeyChecking=no")))

    words = connector_of(host, None).argv(("true",))

    assert words.index("StrictHostKeyChecking=yes") < words.index("StrictHostKeyChecking=no")


def test_a_command_of_the_user_s_configuration_takes_the_place_of_none_of_ours() -> None:
    host = Host("n1", "10.0.0.1", ssh=SshOptions(common_args=("-o", "RemoteCommand=tmux attach")))

    for words in (connector_of(host, None).argv(("true",)), _key_exchange(host, Path("/known_hosts"), ())):
        assert words.index("RemoteCommand=none") < words.index("RemoteCommand=tmux attach")


def test_a_control_directory_that_others_can_enter_is_refused() -> None:
    control_directory().chmod(0o755)

    with pytest.raises(ClusterNotReadyError, match="open to others"):
        control_directory()


@pytest.mark.parametrize("is_link", [False, True])
def test_a_control_directory_that_is_no_directory_is_refused(runtime_directory: Path, is_link: bool) -> None:
    directory = control_directory()
    directory.rmdir()
    if is_link:
        directory.symlink_to(runtime_directory / "nowhere")
    else:
        directory.touch()
    with pytest.raises(ClusterNotReadyError, match="cannot be used as the directory of SSH connections"):
        control_directory()


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("hostname 10.0.0.1\nport 22\n", Route("10.0.0.1", 22, "10.0.0.1", proxied=False)),
        ("hostname 10.0.0.1\nport 2222\n", Route("10.0.0.1", 2222, "[10.0.0.1]:2222", proxied=False)),
        ("hostname h\nport 2222\nhostkeyalias node7\n", Route("h", 2222, "node7", proxied=False)),
        ("hostname h\nport 22\nproxyjump a,b\n", Route("h", 22, "h", proxied=True)),
        ("hostname h\nport 22\nproxycommand nc %h %p\n", Route("h", 22, "h", proxied=True)),
        ("hostname h\nport 22\nproxycommand none\nproxyusefdpass no\n", Route("h", 22, "h", proxied=False)),
    ],
)
def test_the_route_to_a_host_is_read_from_openssh_s_configuration(output: str, expected: Route) -> None:
    assert Route.parse(output) == expected


def test_the_example_of_the_readme_is_what_is_printed() -> None:
    printed = "ssh: connect to host 10.0.0.3 port 22: No route to host"
    reason = explain_failure(Host("gpu03", "10.0.0.3"), printed).reason
    assert f"gpu03: {reason}\n" in (Path(__file__).parents[3] / "README.md").read_text()
