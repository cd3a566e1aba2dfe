"""Merge the layers of an image: which entry of which layer is a file of its root directory. Pure.

Layers apply from the first to the last, as container engines unpack them: an entry replaces what has its path, a
directory keeps what is in it, `.wh.NAME` removes NAME of the layers below, and `.wh..wh..opq` all that they have in a
directory. Symbolic links among the parents of an entry lead to places in the image, also from `/` and `..`.
"""

from collections.abc import Iterable
from enum import Enum

from pylaunch.base.dataclass import dataclass, field
from pylaunch.errors import UsageError

WHITEOUT = ".wh."
OPAQUE = ".wh..wh..opq"
LONGEST_PATH, LONGEST_NAME = 4096, 255
"""Bytes, as Linux limits them."""

MOST_LINKS = 40
"""Symbolic links on the way to one entry, as Linux limits them."""

DEEPEST = 256
"""Directories above one entry."""

MOST_NAMES = 1 << 30
"""Characters of the paths of all files."""

MOST_ENTRIES = 5_000_000
"""Entries of all layers together."""


class LayerError(UsageError):
    """A layer has an entry that no image should have."""


class EntryKind(Enum):
    """Kinds of entries, as a merge treats them."""

    DIRECTORY = "directory"
    FILE = "file"
    SYMBOLIC_LINK = "symbolic link"
    HARD_LINK = "hard link"
    IGNORED = "device, pipe or socket"
    """Removes what has its path. Ranks have the devices of their node."""


@dataclass(frozen=True)
class LayerEntry:
    """One entry of a layer."""

    path: str
    kind: EntryKind
    target: str = ""
    """Of a link."""


@dataclass
class _Inode:
    layer: int
    index: int
    """Place of the entry in its layer; -1 for a directory without an entry."""

    link: str | None = None
    """Target of a symbolic link."""

    children: "dict[str, tuple[int, _Inode]] | None" = None
    """Of a directory: the layer that made each name, and what has the name."""

    cleared_by: int = -1
    """The layer that has removed everything of the layers below."""


@dataclass
class RootDirectory:
    """Root directory that the layers so far make."""

    _root: _Inode = field(default_factory=lambda: _Inode(0, -1, None, {}))
    _layers: int = 0
    _entries: int = 0

    def apply(self, entries: Iterable[LayerEntry]) -> None:
        """Apply the next layer. Raises LayerError."""
        for index, entry in enumerate(entries):
            self._entries += 1
            if self._entries > MOST_ENTRIES:
                raise LayerError(f"more than {MOST_ENTRIES} entries")
            self._add(index, entry)
        self._layers += 1

    def names(self) -> tuple[dict[tuple[int, int], list[str]], list[str]]:
        """Return the paths that each entry (its layer and its index there) has, and the directories without an entry.

        A path of the root directory itself is ".". Raises LayerError.
        """
        found: dict[tuple[int, int], list[str]] = {}
        made: list[str] = []
        left = [(".", self._root)]
        size = 0
        while left:
            path, inode = left.pop()
            size += len(_bounded(path))
            if size > MOST_NAMES:
                raise LayerError(f"more than {MOST_NAMES >> 20} MiB of paths")
            if inode.index >= 0:
                found.setdefault((inode.layer, inode.index), []).append(path)
            elif path != ".":
                made.append(path)
            below = "" if path == "." else f"{path}/"
            left += [(below + name, child) for name, (_, child) in (inode.children or {}).items()]
        return found, made

    def _add(self, index: int, entry: LayerEntry) -> None:
        parts = _parts(entry.path)
        new = _Inode(self._layers, index)
        if not parts:
            self._root.layer, self._root.index = new.layer, index
            return
        name = parts.pop()
        parent = self._directory(parts, entry.path)
        assert parent.children is not None
        before = parent.children.get(name)
        if name == OPAQUE:
            _remove_lower(parent, self._layers)
        elif name.startswith(WHITEOUT):
            _remove_lower(parent, self._layers, name.removeprefix(WHITEOUT))
        elif entry.kind is EntryKind.IGNORED:
            parent.children.pop(name, None)
        elif entry.kind is EntryKind.HARD_LINK:
            parent.children[name] = (self._layers, self._target(entry))
        elif entry.kind is EntryKind.DIRECTORY and before is not None and before[1].children is not None:
            before[1].layer, before[1].index = new.layer, index
            parent.children[name] = (self._layers, before[1])
        else:
            new.children = {} if entry.kind is EntryKind.DIRECTORY else None
            new.link = _bounded(entry.target) if entry.kind is EntryKind.SYMBOLIC_LINK else None
            parent.children[name] = (self._layers, new)

    def _target(self, entry: LayerEntry) -> _Inode:
        parts = _parts(entry.target)
        children = self._directory(parts[:-1], entry.path).children if parts else None
        found = (children or {}).get(parts[-1] if parts else "")
        if found is None or found[1].children is not None:
            raise LayerError(f"{entry.path!r} is a hard link to {entry.target!r}, which is no file before it")
        return found[1]

    def _directory(self, parts: list[str], path: str) -> _Inode:
        """Return the directory at `parts` for the entry `path`; directories that are not there are made."""
        above, left, links = [self._root], parts[::-1], 0
        while left:
            part = left.pop()
            if part == "..":
                del above[max(1, len(above) - 1) :]
                continue
            children = above[-1].children
            assert children is not None
            _, found = children.get(part, (0, None))
            if found is not None and found.link is not None:
                links += 1
                if links > MOST_LINKS:
                    raise LayerError(f"{path!r} is behind more than {MOST_LINKS} symbolic links")
                if found.link.startswith("/"):
                    del above[1:]
                left += [each for each in reversed(found.link.split("/")) if each not in ("", ".")]
                continue
            if found is None or found.children is None:
                found = _Inode(self._layers, -1, None, {})
                children[part] = (self._layers, found)
            above.append(found)
            if len(above) > DEEPEST:
                raise LayerError(f"{path[:80]!r}… is in more than {DEEPEST} directories")
        return above[-1]


def _remove_lower(directory: _Inode, layer: int, only: str | None = None) -> None:
    """Remove what the layers below `layer` have in `directory`: everything, or what is named `only`."""
    if only is None:
        if directory.cleared_by == layer:
            return
        directory.cleared_by = layer
    children = directory.children or {}
    for name in list(children) if only is None else [only] if only in children else []:
        made_by, child = children[name]
        if child.children:
            _remove_lower(child, layer)
        if made_by < layer and not child.children:
            del children[name]


def _parts(path: str) -> list[str]:
    parts = [part for part in _bounded(path).split("/") if part not in ("", ".")]
    if ".." in parts:
        raise LayerError(f"{path!r} has '..' in its path")
    if longest := next((part for part in parts if len(part.encode("utf-8", "surrogateescape")) > LONGEST_NAME), None):
        raise LayerError(f"{longest[:80]!r}… is a name of more than {LONGEST_NAME} bytes")
    return parts


def _bounded(path: str) -> str:
    if len(path.encode("utf-8", "surrogateescape")) > LONGEST_PATH:
        raise LayerError(f"{path[:80]!r}… is longer than {LONGEST_PATH} bytes")
    return path
