"""The beginning and the end of a text that arrives in pieces, within a bound. Pure."""

from collections import deque

_PROBE = 256


class TextTail:
    """The end of a text, `limit` characters at most, from the beginning of a line where one begins there."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pieces: deque[str] = deque()
        self._kept = 0
        self.lines = 0
        """Newlines of the whole text."""

        self.is_cut = False
        """The beginning was dropped."""

    def add(self, piece: str) -> None:
        """Append `piece`."""
        self.lines += piece.count("\n")
        self._pieces.append(piece)
        self._kept += len(piece)
        while self._kept - len(self._pieces[0]) >= self._limit:
            self._kept -= len(self._pieces.popleft())
            self.is_cut = True

    @property
    def text(self) -> str:
        """The text that is kept."""
        text = "".join(self._pieces)
        if len(text) > self._limit:
            self.is_cut = True
            text = text[len(text) - self._limit :]
            newline = text.find("\n")
            text = text[newline + 1 :] if 0 <= newline < len(text) - 1 else text
        return text


def first_part(text: str, limit: int) -> str:
    """Return the first `limit` characters of `text`, up to the end of a line where one ends there."""
    part = text[:limit]
    if len(part) < len(text) and (newline := part.rfind("\n")) >= 0:
        return part[: newline + 1]
    return part


def rejoined(head: str, tail: str, mark: str) -> str:
    """Return `head`, `mark` on a line of its own, and `tail`; without `mark` where the tail begins within the head."""
    probe = tail[:_PROBE]
    if len(probe) == _PROBE and head.count(probe) == 1 and tail.startswith(head[head.index(probe) :]):
        return head[: head.index(probe)] + tail
    between = "" if head.endswith("\n") or not head else "\n"
    return f"{head}{between}{mark}\n{tail}"


def bounded(text: str, limit: int, mark: str) -> str:
    """Return `text`, or its first quarter and its end within `limit` characters, with `mark` between them."""
    if len(text) <= limit:
        return text
    tail = TextTail(limit - limit // 4)
    tail.add(text)
    return rejoined(first_part(text, limit // 4), tail.text, mark)
