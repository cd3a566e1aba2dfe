"""The user and the machine of this process, for records and requests."""

import getpass
import os
import socket


def user_and_host() -> str:
    """Return "alice on laptop": the user of this process, or the number of a user without a name, and this machine."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = f"user id {os.getuid()}"
    return f"{user} on {socket.gethostname()}"
