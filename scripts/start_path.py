#!/usr/bin/env python3
"""Print the path of one real start on the controller: the files that it enters before its ranks are released.

    python scripts/start_path.py            three nodes, which are directories of this machine
    python scripts/start_path.py --calls    with the functions that are entered in each file

A file is entered when one of its functions is called; running its top level is an import. Values that are handed along
(`model`, `protocol`, `base`), and what the checks ask beside the start, are counted apart. A climb is a call from a
file into one of a floor above it: `docs/contributing/architecture.md` has the floors.
"""

import argparse
import contextlib
import io
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = f"{ROOT / 'pylaunch'}{os.sep}"
FLOORS = (
    "cli",
    "features",
    "terminal",
    "runs",
    "checks",
    "probe",
    "inventory",
    "transport",
    "store",
    "render",
    "verdict",
)
VALUES = ("model", "protocol", "base", "errors.py", "agent")
BESIDE = ("checks", "probe")
END = ("runs/prepare/session.py", "_release")
"""The function that sends the release."""


class Trace:
    """Calls and imports of this process until the release."""

    def __init__(self) -> None:
        self.entered: dict[str, dict[str, None]] = {}
        self.imported: dict[str, None] = {}
        self.climbs: dict[tuple[str, str], str] = {}
        self._is_over = False
        self._importing = threading.local()

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Take an event of `sys.setprofile`."""
        is_import = frame.f_code.co_name == "<module>"
        if event == "return" and is_import:
            self._importing.depth -= 1
        if event != "call" or self._is_over:
            return
        depth = getattr(self._importing, "depth", 0)
        if is_import:
            self._importing.depth = depth + 1
        name = _of_package(frame)
        if name is None:
            return
        if is_import:
            self.imported[name] = None
        elif depth == 0:
            self._enter(name, frame)

    def _enter(self, name: str, frame: FrameType) -> None:
        function = frame.f_code.co_qualname
        self._is_over = (name, frame.f_code.co_name) == END
        self.entered.setdefault(name, {})[function] = None
        caller, above = frame.f_back, None
        while caller is not None and above is None:
            above, caller = _of_package(caller), caller.f_back
        is_argument = function.endswith("<genexpr>")  # The caller consumes what it was given.
        if above is not None and _floor(name) < _floor(above) and not is_argument and not above.startswith(BESIDE):
            self.climbs.setdefault((above, name), function)


def _of_package(frame: FrameType) -> str | None:
    name = frame.f_code.co_filename
    return name.removeprefix(PACKAGE) if name.startswith(PACKAGE) else None


def _floor(name: str) -> int:
    room = name.partition("/")[0]
    return FLOORS.index(room) if room in FLOORS else len(FLOORS)


@contextlib.contextmanager
def _traced() -> Iterator[Trace]:
    trace = Trace()
    threading.setprofile(trace)
    sys.setprofile(trace)
    try:
        yield trace
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def traced_start(directory: Path) -> Trace:
    """Start `true` on three nodes in `directory`, and return the trace."""
    sys.path.insert(0, str(ROOT))
    os.environ["XDG_STATE_HOME"] = str(directory / "state")
    from tests.starts.cluster import made_of_directories  # noqa: PLC0415 -- after the path of the checkout

    cluster = made_of_directories(directory, ["n1", "n2", "n3"])
    for name in [name for name in sys.modules if name.partition(".")[0] == "pylaunch"]:
        del sys.modules[name]
    words = ["start", "-i", str(cluster.inventory), "--framework", "command", "--workdir", "/", "--", "true"]
    sys.argv = ["pylaunch", *words]
    printed = io.StringIO()
    with _traced() as trace, contextlib.redirect_stderr(printed), contextlib.redirect_stdout(printed):
        from pylaunch.cli.main import main  # noqa: PLC0415 -- its import is a part of the start

        try:
            main()
        except SystemExit as ended:
            if ended.code:
                raise RuntimeError(printed.getvalue()) from None
    return trace


def shown(trace: Trace, *, calls: bool) -> Iterator[str]:
    """Yield the path in lines."""
    path = [name for name in trace.entered if not name.startswith((*VALUES, *BESIDE))]
    for name in path:
        functions = f"  {', '.join(trace.entered[name])}" if calls else ""
        yield f"{name}{functions}"
    for (above, name), function in trace.climbs.items():
        yield f"climbs: {above} calls {function} of {name}"
    beside = sum(name.startswith(BESIDE) for name in trace.entered)
    yield (
        f"{len(path)} files on the path, {len(trace.climbs)} climbs; {beside} files of the checks beside it, "
        f"{len(trace.entered) - len(path) - beside} of values; {len(trace.imported)} files imported"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", action="store_true")
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        for line in shown(traced_start(Path(place)), calls=flags.calls):
            sys.stdout.write(f"{line}\n")
