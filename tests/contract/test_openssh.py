"""Contract with OpenSSH, against a real server on loopback: quoting, options, shared connections, trust."""

import asyncio
import contextlib
import fcntl
import getpass
import json
import os
import pty
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from pylaunch.cli.main import run
from pylaunch.errors import ExitCode
from pylaunch.model.cluster import Cluster, Host, SshOptions
from pylaunch.probe.ask import Unreachable, ask
from pylaunch.runs.connect.agent_link import Call, LinkError, open_link
from pylaunch.transport import process
from pylaunch.transport.connections import connector_of
from pylaunch.transport.host_keys import known_keys, public_key, server_name, write_known_hosts
from pylaunch.transport.openssh.connector import OpenSshConnector
from pylaunch.transport.openssh.failures import explain_failure
from pylaunch.transport.openssh.sharing import control_directory
from pylaunch.transport.runner import PlaybookRun, run_playbook
from tests.ports import free_port
from tests.waiting import DEADLINE_S

SSHD = process.program_path("sshd")
HOSTILE = ("a b", 'it\'s "quoted"', "two\nlines", ";id", "$HOME", "`id`", "*", "\\", "--", "")

pytestmark = pytest.mark.skipif(SSHD is None, reason="no sshd on this machine: install openssh-server")


@dataclass(frozen=True)
class Server:
    """An sshd of our own, with keys made for it."""

    port: int
    directory: Path

    @property
    def host(self) -> Host:
        key = str(self.directory / "user_key")
        return Host("n1", "127.0.0.1", ssh=SshOptions(getpass.getuser(), self.port, key))

    @property
    def host_key(self) -> str:
        return (self.directory / "host_key.pub").read_text()


def make_key(file: Path, kind: str = "ed25519") -> None:
    process.run(("ssh-keygen", "-q", "-t", kind, "-N", "", "-f", str(file))).checked()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("sshd")) as made:
        yield made


@contextlib.contextmanager
def serving(directory: Path, *settings: str) -> Iterator[Server]:
    """Run an sshd with further settings."""
    for name in ("host_key", "user_key"):
        make_key(directory / name)
    server = Server(free_port(), directory)
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    (directory / "config").write_text(
        f"ListenAddress 127.0.0.1\nPort {server.port}\nHostKey {directory}/host_key\n"
        f"AuthorizedKeysFile {directory}/user_key.pub\nStrictModes no\nUsePAM no\nPidFile none\nPermitRootLogin yes\n"
        + "".join(f"{setting}\n" for setting in settings)
    )
    assert SSHD is not None
    daemon = subprocess.Popen([SSHD, "-D", "-e", "-f", directory / "config"], stderr=subprocess.PIPE, text=True)
    assert daemon.stderr is not None
    first_line = daemon.stderr.readline()
    assert "Server listening" in first_line, first_line + daemon.stderr.read()
    drain = threading.Thread(target=daemon.stderr.read, daemon=True)
    drain.start()
    try:
        yield server
    finally:
        daemon.terminate()
        daemon.wait()


def test_a_server_that_takes_no_keys_is_not_called_a_missing_key(tmp_path: Path) -> None:
    with serving(tmp_path, "PubkeyAuthentication no", "PasswordAuthentication yes") as server:
        kept = tmp_path / "known_hosts"
        kept.write_text(f"[127.0.0.1]:{server.port} {server.host_key}")
        connector = OpenSshConnector(server.host, str(kept))
        ended = process.run(connector.argv(("true",), shared=False))
    failure = connector.failure(ended)
    assert failure is not None
    assert failure.hint is not None
    assert failure.hint.startswith("on n1, sshd accepts no login by key alone")


@pytest.fixture(autouse=True)
def runtime_directory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Shared connections of these tests alone, closed at their end."""
    with tempfile.TemporaryDirectory(prefix="pl") as directory:
        monkeypatch.setenv("XDG_RUNTIME_DIR", directory)
        yield Path(directory)
        close_connections()


def close_connections() -> None:
    """End the shared connections; the next command logs in."""
    for control in control_directory().iterdir():
        process.run(("ssh", "-o", f"ControlPath={control}", "-O", "exit", "any")).checked()


@pytest.fixture
def project(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose inventory has the server in it, in a directory with an awkward name; nothing trusted yet."""
    directory = tmp_path / 'a b%h "q" \\ it\'s'
    directory.mkdir()
    (tmp_path / "home" / ".ssh").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(directory)
    (directory / "cluster.ini").write_text(f"[cluster]\nn1 ansible_host=127.0.0.1 ansible_port={server.port}\n")
    return directory


def known_hosts(project: Path) -> Path:
    return project / ".pylaunch" / "known_hosts"


def trusted(server: Server, file: Path, key: str | None = None) -> str:
    write_known_hosts(file, [public_key(server_name("127.0.0.1", server.port), key or server.host_key)])
    return str(file)


def test_every_word_arrives_as_it_was_sent(server: Server, project: Path) -> None:
    file = trusted(server, known_hosts(project))
    program = (sys.executable, "-c", "import json, sys; print(json.dumps(sys.argv[1:]))", *HOSTILE)

    answer = process.run(connector_of(server.host, file).argv(program)).checked()

    assert tuple(json.loads(answer.stdout)) == HOSTILE


def test_an_open_connection_serves_nobody_who_could_not_open_it(server: Server, project: Path, tmp_path: Path) -> None:
    file = trusted(server, known_hosts(project))
    process.run(connector_of(server.host, file).argv(("true",))).checked()
    settings = server.host.ssh
    make_key(tmp_path / "other_key")

    def refused(host: Host, known: str | None) -> str:
        ended = process.run(connector_of(host, known).argv(("true",)))
        assert ended.returncode == 255
        return explain_failure(host, ended.stderr).reason

    assert "host key" in refused(server.host, None)
    assert "host key" in refused(server.host, str(tmp_path / "none"))
    for key in ("no_such_key", "other_key"):
        host = replace(server.host, ssh=replace(settings, private_key=str(tmp_path / key)))
        assert "authentication refused" in refused(host, file) or "private key" in refused(host, file)
    proxied = replace(server.host, ssh=replace(settings, common_args=("-o", "ProxyCommand=false")))
    assert refused(proxied, file)
    Path(file).write_text("")
    assert "host key" in refused(server.host, file)


def test_a_key_that_is_gone_opens_nothing(server: Server, project: Path, tmp_path: Path) -> None:
    file = trusted(server, known_hosts(project))
    key = shutil.copy(server.directory / "user_key", tmp_path / "key")
    host = replace(server.host, ssh=replace(server.host.ssh, private_key=str(key)))
    process.run(connector_of(host, file).argv(("true",))).checked()
    Path(key).unlink()
    assert process.run(connector_of(host, file).argv(("true",))).returncode == 255


def test_ansible_takes_the_connection_of_our_own_commands(server: Server, project: Path) -> None:
    file = trusted(server, known_hosts(project))
    settings = server.host.ssh
    (project / "cluster.ini").write_text(
        f"[cluster]\nn1 ansible_host=127.0.0.1 ansible_port={settings.port} ansible_user={settings.user} "
        f"ansible_ssh_private_key_file={settings.private_key}\n"
    )
    cluster = Cluster((server.host,), sources=(str(project / "cluster.ini"),), known_hosts=file)
    asks_its_connection = connector_of(server.host, file).argv(("printenv", "SSH_CONNECTION"))
    asked, again = (process.run(asks_its_connection).checked() for _ in range(2))
    assert asked.stdout == again.stdout
    (project / "playbooks").mkdir()
    playbook = project / "playbooks" / "site.yml"
    playbook.write_text(
        "- hosts: all\n  gather_facts: false\n  tasks:\n"
        f"    - name: Ask\n      ansible.builtin.raw: printenv SSH_CONNECTION > {project.parent}/asked\n"
    )
    result = run_playbook(PlaybookRun(playbook, cluster))
    assert result.ok, result.failures
    assert (project.parent / "asked").read_text() == asked.stdout
    assert len(list(control_directory().iterdir())) == 1


def test_an_unknown_host_key_stops_the_connection_and_names_trust(server: Server, project: Path) -> None:
    ended = process.run(connector_of(server.host, str(known_hosts(project))).argv(("true",)))

    assert ended.returncode == 255
    assert explain_failure(server.host, ended.stderr).hint == "pylaunch trust --limit n1"


def test_trust_accepts_the_key_that_the_server_has_and_ssh_then_connects(
    server: Server, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["trust", "--yes", "--json"]) == ExitCode.DONE

    [shown] = json.loads(capsys.readouterr().out)["hosts"]
    by_keygen = process.run(("ssh-keygen", "-lf", f"{server.directory}/host_key.pub")).stdout.split()[1]
    assert (shown["fingerprint"], shown["state"]) == (by_keygen, "new")
    assert process.run(connector_of(server.host, str(known_hosts(project))).argv(("true",))).ok


def test_trust_asks_on_a_terminal_and_obeys_the_answer(server: Server, project: Path) -> None:
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    fingerprint = public_key(server_name("127.0.0.1", server.port), server.host_key).fingerprint
    with os.fdopen(controller, "r+b", buffering=0) as keyboard, os.fdopen(terminal) as screen:
        for answer, code in ((b"n\n", ExitCode.CLUSTER_NOT_READY), (b"y\n", ExitCode.DONE)):
            keyboard.write(answer)
            command = [sys.executable, "-c", "from pylaunch.cli.main import main; main()", "trust"]
            ended = subprocess.run(command, stdin=screen, stdout=screen, stderr=subprocess.PIPE, text=True, check=False)
            shown = b""  # The kernel passes on what the terminal got in pieces, also after the end of its writer.
            while fingerprint.encode() not in shown:
                assert select.select([keyboard], [], [], DEADLINE_S)[0], f"it is cut where it is compared: {shown!r}"
                shown += keyboard.read(1 << 16)
            assert "accept 1 host key? [y/N]" in ended.stderr
            assert ended.returncode == code
            assert known_hosts(project).exists() == (code == ExitCode.DONE)


def test_a_changed_key_is_shown_against_the_old_one_and_kept_out_until_replaced(
    server: Server, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = (server.directory / "user_key.pub").read_text()
    trusted(server, known_hosts(project), old)
    before = known_hosts(project).read_text()
    in_file = server_name("127.0.0.1", server.port)

    assert run(["trust", "--yes"]) == ExitCode.CLUSTER_NOT_READY
    output = capsys.readouterr().err
    assert public_key(in_file, old).fingerprint in output
    assert public_key(in_file, server.host_key).fingerprint in output
    assert known_hosts(project).read_text() == before

    assert run(["trust", "--yes", "--replace"]) == ExitCode.DONE
    assert known_keys(known_hosts(project), in_file) == (public_key(in_file, server.host_key),)


def test_a_host_behind_a_proxy_is_asked_through_it(server: Server, project: Path) -> None:
    known = trusted(server, server.directory / "jump_known_hosts")
    jump = f"ssh -F {server.directory}/jump_config -W 127.0.0.1:{server.port} jump"
    (server.directory / "jump_config").write_text(
        f"Host jump\n  HostName 127.0.0.1\n  Port {server.port}\n  User {getpass.getuser()}\n"
        f"  IdentityFile {server.directory}/user_key\n  UserKnownHostsFile {known}\n"
    )
    (project / "cluster.ini").write_text(
        f"[cluster]\nhidden ansible_host=hidden.invalid ansible_ssh_common_args=\"-o 'ProxyCommand={jump}'\"\n"
    )

    assert run(["trust", "--yes"]) == ExitCode.DONE

    assert known_keys(known_hosts(project), "hidden.invalid") == (public_key("hidden.invalid", server.host_key),)


@contextlib.contextmanager
def forced(server: Server, command: str) -> Iterator[None]:
    """The user's key runs this command, whatever the client requests."""
    file = server.directory / "user_key.pub"
    before = file.read_text()
    file.write_text(f'command="{command}" {before}')
    try:
        yield
    finally:
        file.write_text(before)


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        ("echo This account is currently not available.; exit 1", "This account is currently not available"),
        ("/bin/false", "no output"),
    ],
)
def test_probe_and_start_show_what_an_account_prints_that_does_not_run_our_commands(
    server: Server, project: Path, command: str, printed: str
) -> None:
    host = replace(server.host, agent_python=sys.executable)
    cluster = Cluster((host,), known_hosts=trusted(server, known_hosts(project)))
    with forced(server, command):
        answer = ask(cluster, {"n1": b"print('{}')"})["n1"]
        with pytest.raises(LinkError) as refused:
            asyncio.run(open_link(host, cluster.known_hosts, "0123", Call("open", "7f3a9c01")))
    assert isinstance(answer, Unreachable)
    assert printed in answer.reason
    assert "its account must run the commands that it is given" in (answer.hint or "")
    assert printed in refused.value.reason


def what_fails(capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """Evidence and fix of the only check of connections that fails in the project."""
    words = ["check", "-i", "cluster.ini", "--only", "reach", "--json"]
    assert run(words) == ExitCode.CLUSTER_NOT_READY
    found = json.loads(capsys.readouterr().out)
    (failed,) = [each for each in found["findings"] if each["severity"] == "fail"]
    assert failed["hosts"] == ["n1"]
    return "\n".join((failed["check"], failed["text"], *failed["evidence"])), failed["fix"]


def test_a_shell_that_prints_is_found(
    server: Server, project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trusted(server, known_hosts(project))
    settings = server.host.ssh
    (project / "cluster.ini").write_text(
        f"[cluster]\nn1 ansible_host=127.0.0.1 ansible_port={server.port} ansible_user={settings.user} "
        f"ansible_ssh_private_key_file={settings.private_key} pylaunch_agent_python={sys.executable} "
        f"pylaunch_node_root={tmp_path}/node\n"
    )
    with forced(server, 'echo welcome; eval \\"$SSH_ORIGINAL_COMMAND\\"'):
        found, fix = what_fails(capsys)
    assert found.startswith("reach.shell")
    assert fix.startswith("in its rc files, move it below: case $- in *i*) ;; *) return ;; esac")
