"""Manifest of a tree of files that every node of a run must have, byte for byte."""

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property

from pylaunch.base.dataclass import dataclass


@dataclass(frozen=True)
class File:
    """One regular file."""

    path: str
    """Relative to the tree, with `/`."""

    mode: int
    """Permission bits."""

    size: int
    digest: str
    """SHA-256 of its content, in hexadecimal."""


@dataclass(frozen=True)
class SymbolicLink:
    """A symbolic link, kept as it is."""

    path: str
    target: str


@dataclass(frozen=True)
class Manifest:
    """All files and links of a tree, by path. Empty directories are not part of a tree, as in git."""

    files: tuple[File, ...]
    links: tuple[SymbolicLink, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    @cached_property
    def blobs(self) -> Mapping[str, File]:
        """One file for each content by digest, in the order in which nodes request content."""
        return {file.digest: file for file in sorted(self.files, key=lambda file: file.digest)}

    @cached_property
    def encoded(self) -> bytes:
        """Manifest in one line, as it is sent to nodes; the same bytes for the same tree."""
        body = {
            "files": [[file.path, file.mode, file.size, file.digest] for file in self.files],
            "links": [[link.path, link.target] for link in self.links],
        }
        return json.dumps(body, separators=(",", ":"), sort_keys=True).encode() + b"\n"

    @cached_property
    def digest(self) -> str:
        """Id of the tree: the SHA-256 of the manifest, in hexadecimal."""
        return hashlib.sha256(self.encoded).hexdigest()
