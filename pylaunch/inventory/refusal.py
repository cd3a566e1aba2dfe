"""Reduce Ansible's errors about an inventory source to the lines that help its author.

Ansible tries its parsers one after the other and reports the failure of each. The relevant one is the first that is not
just "this is not my format". Frequent mistakes of inventories written by hand are named with the text to write instead.
"""

import difflib
import re
from collections.abc import Mapping

from pylaunch.inventory.host_list import ranges
from pylaunch.inventory.keys import ALIASES, KEYS
from pylaunch.inventory.locate import lines_of, place_of_text

_NOT_MY_FORMAT = "no root 'plugin' key found"
_UNPACKING = "not enough values to unpack"
_BLOCK = re.compile(r"^\[(?:WARNING|ERROR)\]: ", re.MULTILINE)
_FAILED = re.compile(r"Failed to parse inventory with '(\w+)' plugin: (?:Failed to parse inventory: )?(.*)")
_ORIGIN = re.compile(r"^Origin: (?:<inventory plugin '\w+' with source '(?P<source>.*)'>|(?P<path>.*?))$", re.MULTILINE)
_SCRIPT_STDERR = "Standard error from inventory script:\n"
_SKIPPED = re.compile(r"^\[WARNING\]: (Skipping unexpected key \((.*)\) in group .*|Skipping .*)$", re.MULTILINE)
_DUPLICATE = re.compile(r"^\[WARNING\]: Found (duplicate mapping key .*)\.\nOrigin: (.*?):(\d+)", re.MULTILINE)
_QUOTED = re.compile(r"got: (.+)$|'(.+?)'(?= supplied|[.:]|$)")


def evidence(stderr: str, directory: str, files: Mapping[str, str]) -> list[str]:
    """Return one line per file that Ansible could not parse, with the line number where it is known.

    `files` maps paths relative to `directory` to the texts of the inventory.
    """
    lines: dict[str, list[str]] = {}
    for block in _BLOCK.split(stderr):
        failed, origin = _FAILED.search(block), _ORIGIN.search(block)
        if failed is None or origin is None or failed[2].startswith(_NOT_MY_FORMAT):
            continue
        path, _, position = (origin["source"] or origin["path"]).partition(":")
        name = path.removeprefix(f"{directory}/")
        message = (failed[2] if failed[2] != "Failed to parse inventory." else _cause(block)).rstrip(".")
        text = files.get(name, "")
        if _UNPACKING in message and (number := _unclosed_section(text)) is not None:
            position, message = str(number), "a section header without its closing bracket"
        place = f"{name}:{position.split(':')[0]}" if position else _place(name, text, message)
        known = place.rpartition(":")[2]
        number, message = explained(message, text, int(known) if known.isdecimal() else None)
        script_output = block.partition(_SCRIPT_STDERR)[2].strip().splitlines()
        lines.setdefault(name, [f"{name if number is None else f'{name}:{number}'}: {message}", *script_output])
    if lines:
        return [line for group in lines.values() for line in group]
    return [line.removeprefix("[ERROR]: ") for line in stderr.splitlines() if line.strip()][-5:]


def _cause(block: str) -> str:
    """Return the innermost cause of a chain."""
    return block.split("<<< caused by >>>")[-1].strip().splitlines()[0]


def _place(name: str, text: str, message: str) -> str:
    """Return `name`, with a line number when the message quotes text that occurs on one line only."""
    quoted = _QUOTED.search(message)
    return (quoted and place_of_text({name: text}, quoted[1] or quoted[2])) or name


def _unclosed_section(text: str) -> int | None:
    lines = enumerate(text.splitlines(), 1)
    return next((number for number, line in lines if line.startswith("[") and "]" not in line), None)


def skipped(stderr: str, directory: str, files: Mapping[str, str]) -> list[str]:
    """Return the parts of the inventory that Ansible ignored with a warning."""
    twice = [
        f"{path.removeprefix(f'{directory}/')}:{line}: {warning}, and only the last is used"
        for warning, path, line in _DUPLICATE.findall(stderr)
    ]
    ignored = []
    for warning, key in _SKIPPED.findall(stderr):
        place = place_of_text(files, f"{key}:") if key else None
        near = difflib.get_close_matches(key, ("vars", "children", "hosts"), n=1)
        ignored.append(f"{f'{place}: ' if place else ''}{warning}{f'; did you mean {near[0]}?' if near else ''}")
    return twice + ignored


_RANGE = re.compile(r"[\w.-]*\[\s*\d+\s*(?:(?:-|,|\.\.+)\s*\d+\s*)+\][\w.-]*")
_COMMENT = re.compile(r"\s+(?:;+|//+)\s*")
_UNASSIGNED = re.compile(r"Expected key=value host variable assignment, got: (\S+)")
_BLANKS = re.compile(r"\s*=\s*")
_SECTION = re.compile(r"\[([\w.-]+):(?:children\] includes|vars\] not valid for) undefined group '(.+)'$")
_KEY = re.compile(r"""["']?([^"':]+)["']?\s*:\s*(.*)""")


def explained(message: str, text: str, number: int | None) -> tuple[int | None, str]:
    """Return the line of an error of Ansible about an inventory file, and the error with what to write instead.

    `number` is the line as far as it is known.
    """
    if text.startswith("\ufeff"):
        return 1, "begins with a byte order mark (BOM); save it as UTF-8 without one"
    if (unassigned := _UNASSIGNED.search(message)) is not None and number is None:
        word = re.compile(rf"\s{re.escape(unassigned[1])}(?:\s|$)")
        number = next((at for at, line in enumerate(text.splitlines(), 1) if word.search(line)), None)
    if message.startswith("host range must be"):
        return _in_range(message, text, number)
    if message.startswith("Invalid data from file, expected dictionary"):
        return _in_hosts(message, text, number)
    if message.startswith('Invalid "hosts" entry'):
        return _in_list(message, text, number)
    written = text.splitlines()
    line = written[number - 1].strip() if number is not None and 0 < number <= len(written) else ""
    return number, f"{message}{_instead(message, text, line, number or 0)}"


def _instead(message: str, text: str, line: str, number: int) -> str:
    if message.startswith("Expected key=value"):
        return _of_words(line)
    if (found := _SECTION.search(message)) is not None:
        known = [name for name in re.findall(r"^\[([\w.-]+)\]", text, re.MULTILINE) if name != found[1]]
        near = difflib.get_close_matches(found[2], known, n=1)
        return f"; did you mean {near[0]}?" if near else f"; name its hosts below [{found[2]}]"
    if "is not allowed, this character is reserved" in message:
        return f"; write {line.replace(':', '', 1)}" if line else ""
    if message.startswith("Invalid section entry"):
        return f"; write [{''.join(line.strip('[]').split())}]"
    if "Tabs are usually invalid" in message:
        return "; indent with blanks"
    if "YAML parsing failed" in message and number > 1:
        return _of_indentation(text.splitlines(), number)
    return ""


def _of_words(line: str) -> str:
    """Return what to write in place of a line of INI with a word that is no host, variable or comment."""
    words = line.split()
    if any(word.startswith((";", "//")) for word in words):
        return f"; write # before a comment: {_COMMENT.sub(' # ', line, count=1)}"
    if re.search(r"\s=|=\s", line):
        return f"; write no blanks beside =: {_BLANKS.sub('=', line)}"
    if len(words) > 1 and words[1] in (*KEYS, *ALIASES):
        return f"; write {words[1]}={words[2] if len(words) > 2 else 'VALUE'}"
    names = [name for name in re.split(r"[\s,]+", line.split("=")[0]) if name]
    return f"; write one host a line: {', then '.join(names)}" if len(names) > 1 and "=" not in line else ""


def _in_range(message: str, text: str, number: int | None) -> tuple[int | None, str]:
    for at, line in enumerate(text.splitlines(), 1):
        found = _RANGE.search(line)
        if found is not None and not line.lstrip().startswith(("#", ";")):
            folded = re.sub(r"\.\.+", "-", found[0].replace(" ", ""))
            return at, f"{found[0]}: Ansible writes ranges with a colon; write {', then '.join(ranges(folded))}"
    return number, message


def _in_hosts(message: str, text: str, number: int | None) -> tuple[int | None, str]:
    for line in lines_of("", text):
        found = _KEY.fullmatch(line.text.strip())
        if line.parents[-1:] == ("hosts",) and found is not None and found[2] and found[2][0] not in "{#&*":
            above = "indent it by two blanks more than its host"
            return line.number, f"{found[1]}: {found[2]}: a variable in the place of a host; {above}"
    return number, message


def _in_list(message: str, text: str, number: int | None) -> tuple[int | None, str]:
    for line in lines_of("", text):
        if line.parents[-1:] == ("hosts",) and line.text.strip().startswith("- "):
            item = line.text.strip()
            return line.number, f"hosts as a list; write {item[2:].strip()}: in place of {item}"
    return number, f"{message}; write n1: and not - n1"


def _of_indentation(written: list[str], number: int) -> str:
    """Return the depths of a line of YAML and of the line above it, if the first is none of those above."""
    depths = [len(each) - len(each.lstrip()) for each in written[:number] if each.strip()]
    if len(depths) < 2 or depths[-1] in depths[:-1]:
        return ""
    return f"; {written[number - 1].strip()!r} is indented by {depths[-1]} blanks, the line above it by {depths[-2]}"
