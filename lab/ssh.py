"""SSH to the nodes of a lab: a login at the terminal, and the end of connections that pylaunch keeps open."""

import hashlib
import socket

from pylaunch.model.cluster import Host
from pylaunch.model.text.argv import Argv
from pylaunch.transport import process
from pylaunch.transport.openssh.sharing import SSH_PORT, control_directory, destination, trust


def login(host: Host, known_hosts: str | None, words: Argv) -> Argv:
    """Return the ssh command for a person at a terminal: a shell on `host`, or `words`, which the shell there reads."""
    return ("ssh", *trust(known_hosts), *destination(host), *([" ".join(words)] if words else []))


def close_all(address: str, user: str) -> None:
    """Close all shared connections to `user` on `address`, whichever credentials opened them.

    The names of their sockets end with ssh's `%C`: the SHA-1 of this machine's name, address, port and user.
    """
    place = f"{socket.gethostname()}{address}{SSH_PORT}{user}"
    digest = hashlib.sha1(place.encode(), usedforsecurity=False).hexdigest()
    for path in sorted(control_directory().glob(f"*{digest}")):
        process.run(("ssh", "-O", "exit", "-o", f"ControlPath={path}", address), timeout_s=60.0)
