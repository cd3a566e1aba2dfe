from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.starts.cluster import DirectoryCluster, made_of_directories, no_process_stays


@pytest.fixture
def directories(tmp_path: Path) -> Iterator[Callable[..., DirectoryCluster]]:
    """Makes a cluster of directories; call it with the names of its nodes."""
    with ExitStack() as stack:

        def make(*names: str) -> DirectoryCluster:
            made = made_of_directories(tmp_path, names)
            stack.enter_context(no_process_stays(made))
            return made

        yield make
