"""The end of a text that arrives in pieces, within a bound. Pure."""

from collections import deque


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
