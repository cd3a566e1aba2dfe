"""Words of ssh's command line: options that every connection gets, and the destination."""

from pylaunch.model.cluster import Host
from pylaunch.model.text.argv import Argv

CONNECT_TIMEOUT_S = 10
ALIVE_S, ALIVE_COUNT = 3, 3
SSH_PORT = 22
OWN_COMMAND = ("-o", "RemoteCommand=none")
"""A RemoteCommand of ~/.ssh/config, as of tmux, is for a terminal, and refuses other commands."""


def config_word(path: str) -> str:
    """Return `path` as one word of ssh's configuration language, where blanks separate and `%` expands."""
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%") + '"'


def options(known_hosts: str | None) -> Argv:
    """Return the options of every ssh, pylaunch's and Ansible's, except those that share a connection.

    ssh takes the first value of an option, so these win over the user's own words, which come later.
    """
    return (
        "-o", "BatchMode=yes",
        *_trust(known_hosts),
        "-o", f"ConnectTimeout={CONNECT_TIMEOUT_S}",
        "-o", f"ServerAliveInterval={ALIVE_S}",
        "-o", f"ServerAliveCountMax={ALIVE_COUNT}",
        "-o", "LogLevel=INFO",
        *OWN_COMMAND,
    )  # fmt: skip


def login(host: Host, known_hosts: str | None, words: Argv) -> Argv:
    """Return the ssh command for a person at a terminal: a shell on `host`, or `words`, which the shell there reads."""
    return ("ssh", *_trust(known_hosts), *destination(host), *([" ".join(words)] if words else []))


def _trust(known_hosts: str | None) -> Argv:
    files = [config_word(known_hosts)] if known_hosts is not None else []
    files += ["~/.ssh/known_hosts", "~/.ssh/known_hosts2"]
    return ("-o", "StrictHostKeyChecking=yes", "-o", "UserKnownHostsFile=" + " ".join(files))


def destination(host: Host) -> Argv:
    """Return the words for port, user, key and address of `host`: the last of ssh's words before the command."""
    ssh = host.ssh
    words = [*ssh.common_args]
    if ssh.port is not None:
        words += ["-p", str(ssh.port)]
    if ssh.user is not None:
        words += ["-l", ssh.user]
    if ssh.private_key is not None:
        words += ["-i", ssh.private_key, "-o", "IdentitiesOnly=yes"]
    return (*words, "--", host.address)


def target(host: Host) -> str:
    """Return `user@address`, or the address where the inventory names no user."""
    return f"{host.ssh.user}@{host.address}" if host.ssh.user else host.address
