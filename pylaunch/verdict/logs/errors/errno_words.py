"""Numbers of errno, which programs print without their words. Pure."""

import os
import re

_ERRNO = re.compile(r"\b[Ee]rrno(?: ?[=:])? ?(\d{1,3})\b\]?")


def named_errno(text: str) -> str:
    """Return a text in which the words of Linux follow a number of errno that has none."""
    found = _ERRNO.search(text)
    words = "" if found is None else os.strerror(int(found[1]))
    return text if found is None or words in text else f"{text[: found.end()]} {words}{text[found.end() :]}"
