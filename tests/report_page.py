"""A page of a report, read as a browser does."""

from collections import Counter
from html.parser import HTMLParser

VOID = {"meta", "link", "br"}


class Document(HTMLParser):
    """Elements, attributes and text of a page; a tag that does not close its element fails the test."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: Counter[str] = Counter()
        self.attributes: list[tuple[str, str]] = []
        self.text: dict[str, str] = {}
        self._open: list[str] = []
        self._ids: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements[tag] += 1
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self._open.append(tag)
            self._ids.append(dict(attrs).get("id") or "")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag
        self._ids.pop()

    def handle_data(self, data: str) -> None:
        for name in filter(None, self._ids):
            self.text[name] = self.text.get(name, "") + data
