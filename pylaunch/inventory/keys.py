"""The keys that pylaunch reads for a host, and a parser for each value.

Parsers take the value from Ansible (a number, a string, a list) and raise ValueError that names the expected form.
"""

import re
import shlex

from pylaunch.errors import UsageError
from pylaunch.model.cluster import Connection

UNPRIVILEGED = "pylaunch_unprivileged"
"""Roles that need root do not apply to the host. Only provision's playbook and specifications read it."""

KEYS = (
    "ansible_host",
    "ansible_port",
    "ansible_user",
    "ansible_connection",
    "ansible_ssh_private_key_file",
    "ansible_ssh_common_args",
    "ansible_ssh_extra_args",
    "ansible_python_interpreter",
    "gpus",
    "devices",
    "interface",
    "fabric_address",
    "rank",
    "topology",
    "pylaunch_python",
    "pylaunch_agent_python",
    "pylaunch_node_root",
    "pylaunch_env_root",
    UNPRIVILEGED,
)
"""All keys, in the order of the reference."""

ALIASES = {
    "ansible_ssh_host": "ansible_host",
    "ansible_ssh_port": "ansible_port",
    "ansible_ssh_user": "ansible_user",
    "ansible_private_key_file": "ansible_ssh_private_key_file",
}
"""Ansible's aliases: Ansible connects by them, so pylaunch does."""

REFUSED = {
    "ansible_ssh_args": "it would replace the options that make Ansible share pylaunch's connections and known_hosts; "
    "use ansible_ssh_common_args",
}

INTERFACE_NAME_LIMIT = 15
_TRUE = ("true", "yes", "on", "1", "y", "t")
_PLACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_RANGE = re.compile(r"(\d+)\s*-\s*(\d+)")


def complaint_about_name(name: str) -> str | None:
    """Return the error in a variable name; None for keys of pylaunch and for variables that it does not read."""
    if name in REFUSED:
        return REFUSED[name]
    if name in KEYS or name in ALIASES:
        return None
    meant = next((key for key in KEYS if _is_misspelling(name, key)), None)
    if meant is not None:
        return f"unknown key; did you mean {meant}?"
    return "unknown key" if name.startswith("pylaunch_") else None


def _is_misspelling(name: str, key: str) -> bool:
    plain, wanted = (text.lower().replace("-", "_") for text in (name, key))
    if plain == wanted:
        return True
    if abs(len(plain) - len(wanted)) == 1:
        longer, shorter = sorted((plain, wanted), key=len, reverse=True)
        return any(longer[:at] + longer[at + 1 :] == shorter for at in range(len(longer)))
    if len(plain) != len(wanted):
        return False
    differing = [at for at in range(len(plain)) if plain[at] != wanted[at]]
    if len(differing) == 2:
        first, second = differing
        return second == first + 1 and plain[first] == wanted[second] and plain[second] == wanted[first]
    # In a short word, one other letter makes another word: `cpus` is not `gpus`.
    return len(differing) == 1 and len(wanted) > 6


def is_true(value: object) -> bool:
    """Return a boolean as Ansible reads it. Raises UsageError for a template, which only Ansible can render."""
    if isinstance(value, str) and "{" in value:
        raise UsageError(f"{UNPRIVILEGED}: expected true or false, got {value!r}")
    return str(value).lower() in _TRUE


def shown(value: object) -> str:
    """Return `value` as an error message quotes it."""
    if isinstance(value, dict) and "__ansible_vault" in value:
        return "a single encrypted value (encrypt the whole file with ansible-vault, or write the value in plain text)"
    return repr(value)


def word(value: object) -> str:
    """Parse a text without blanks."""
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        text = str(value)
        if text and not any(character.isspace() for character in text) and not text.startswith("-"):
            return text
    raise ValueError(f"expected one word, got {shown(value)}")


_WITH_PORT = re.compile(r"([^:\[\]]+|\[[^\]]+\]):(\d+)")


def address(value: object) -> str:
    """Parse the address of a host, without user and port."""
    text = word(value)
    user, at, rest = text.rpartition("@")
    found = _WITH_PORT.fullmatch(rest)
    if "%" in text:
        raise ValueError(
            f"{shown(value)}: the zone after % names an interface of this machine; other hosts cannot use it"
        )
    if not at and found is None and not rest.startswith("["):
        return text
    words = [f"ansible_host={(rest if found is None else found[1]).strip('[]')}"]
    words += [f"ansible_user={user}"] if at else []
    words += [] if found is None else [f"ansible_port={found[2]}"]
    raise ValueError(f"expected an address alone, got {shown(value)}; write {' '.join(words)}")


def complaint_about_host(name: str) -> str | None:
    """Return the error in the name of a host that is more than one word of a line; None for other names."""
    if "=" in name:
        return "a variable in a section of hosts; write it below [cluster:vars], or in the line of a host"
    if "," in name:
        return f"several hosts in one name; write one host a line: {', then '.join(filter(None, name.split(',')))}"
    user, at, rest = name.rpartition("@")
    if at:
        return f"a name with a user; write {rest} ansible_user={user}"
    if (found := _BRACES.search(name)) is not None:
        return f"a range of the shell; write {name[: found.start()]}[{found[1]}:{found[2]}]{name[found.end() :]}"
    return None


_BRACES = re.compile(r"\{(\d+)\.\.(\d+)\}")


def whole_number(value: object) -> int:
    """Parse a number ≥ 0."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if isinstance(value, str) and value.strip().isdecimal():
        return int(value)
    raise ValueError(f"expected a whole number, got {shown(value)}")


def port(value: object) -> int:
    """Parse a TCP port."""
    number = whole_number(value)
    if not 1 <= number <= 65535:
        raise ValueError(f"expected a port from 1 to 65535, got {number}")
    return number


def connection(value: object) -> Connection:
    """Parse Ansible's connection plugin: ssh or local."""
    name = str(value).removeprefix("ansible.builtin.").removeprefix("ansible.legacy.")
    if name in ("ssh", "smart"):
        return Connection.SSH
    if name == "local":
        return Connection.LOCAL
    raise ValueError(f"expected ssh or local, got {shown(value)}")


def arguments(value: object) -> tuple[str, ...]:
    """Parse words of the ssh command line."""
    if not isinstance(value, str):
        raise ValueError(f"expected words for ssh, got {shown(value)}")
    try:
        return tuple(shlex.split(value))
    except ValueError as error:
        raise ValueError(f"expected words for ssh, got {shown(value)} ({str(error).lower()})") from None


def devices(value: object) -> tuple[int, ...]:
    """Parse device indexes: a number, `0,1`, `4-7`, or a list of these."""
    parts = value if isinstance(value, list) else str(value).split(",")
    indexes: list[int] = []
    for part in parts:
        text = str(part).strip()
        if isinstance(part, (bool, dict, list)) or (isinstance(value, dict)):
            raise ValueError(f"expected device numbers such as 0,1 or 0-3, got {shown(value)}")
        if text.isdecimal():
            indexes.append(int(text))
        elif (span := _RANGE.fullmatch(text)) and int(span[1]) <= int(span[2]):
            indexes += range(int(span[1]), int(span[2]) + 1)
        elif text:
            raise ValueError(f"expected device numbers such as 0,1 or 0-3, got {shown(value)}")
    if twice := sorted({index for index in indexes if indexes.count(index) > 1}):
        raise ValueError(f"device {', '.join(map(str, twice))} is named twice in {shown(value)}")
    return tuple(indexes)


def interface(value: object) -> str:
    """Parse the name of a network interface."""
    name = word(value)
    if "/" in name or "," in name or len(name) > INTERFACE_NAME_LIMIT:
        raise ValueError(f"expected the name of one network interface, got {shown(value)}")
    return name


def topology(value: object) -> tuple[str, ...]:
    """Parse the location of a host, outermost first: names separated by "/"."""
    is_text = isinstance(value, (str, int)) and not isinstance(value, bool)
    parts = tuple(str(value).split("/")) if is_text else ("",)
    if not all(_PLACE.fullmatch(part) for part in parts):
        raise ValueError(f"expected names from the outside in, such as rack1/switch3, got {shown(value)}")
    return parts


def path(value: object) -> str:
    """Parse an absolute path on the host."""
    if isinstance(value, str) and value.startswith("/") and "\n" not in value:
        return value
    raise ValueError(f"expected an absolute path, got {shown(value)}")


def interpreter(value: object) -> str | None:
    """Parse Ansible's interpreter setting: a path; None for `auto…`, where pylaunch chooses."""
    return None if str(value).startswith("auto") else path(value)


def text(value: object) -> str:
    """Parse a text that is not blank."""
    if isinstance(value, str) and value.strip():
        return value
    raise ValueError(f"expected text, got {shown(value)}")
