"""Download a repository of the Hugging Face Hub on a node, and pass its snapshot on. Sent over SSH.

    controller                       node
                     ◄── python      interpreter that has huggingface_hub, and those that were tried
    script, token    ──►             download
                     ◄── at, of      bytes that are here, and bytes of all files, once a second
                     ◄── snapshot    directory of the cache, and the commit
                     ◄── error       kind and text of what ended the download
    end of input     ──►             exit; whole files stay

Standard library only, Python 3.8 or newer; `download` runs in an environment with huggingface_hub.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import sys
import threading

from pylaunch.agent.piped import pieces
from pylaunch.agent.shared import programs

START = "import sys; sys.path = [each for each in sys.path if each]; "
"""Imports no module of the login directory."""

BOOTSTRAP = f"{START}exec(sys.stdin.buffer.read(int(sys.stdin.buffer.readline())))"
PROGRAMS = ("hf", "huggingface-cli")
"""Programs of huggingface_hub; the first line of each names its interpreter."""

REPORT_S = 1.0
INFO_S = 30.0
LONGEST_TEXT = 1000
_UNREACHED = {"ConnectionError", "TransportError", "Timeout", "LocalEntryNotFoundError"}
_LOST = re.compile(r"\.[0-9a-f]{8}\.incomplete$")
"""A partial file that no later download continues: huggingface_hub 2.4 names them so."""


def become_hub_python(ranks_python: str) -> None:
    """Become an interpreter with huggingface_hub, which runs the script on stdin."""
    search = os.pathsep.join([os.environ.get("PATH", os.defpath), os.path.expanduser("~/.local/bin")])
    tried = [ranks_python]
    for path in filter(None, (programs.path_of(name, search) for name in PROGRAMS)):
        with contextlib.suppress(OSError), open(path, "rb") as file:
            tried += re.findall(r"^#!(/\S+)", file.readline(4096).decode("utf-8", "replace"))
    tried += filter(None, [programs.path_of("python3", search)])
    python = next((each for each in tried if _has_hub(each)), "")
    _say({"python": python, "tried": tried})
    if python:
        os.execv(python, [python, "-c", BOOTSTRAP])


def _has_hub(python: str) -> bool:
    try:
        return programs.ended([python, "-c", f"{START}import huggingface_hub"]).status == 0
    except OSError:
        return False


def download(kind: str, name: str, revision: str, cache: str) -> None:
    """Download one revision of a repository into `cache`; "" is the cache of this login."""
    sys.excepthook = _report
    token = json.loads(sys.stdin.buffer.readline())["token"]
    threading.Thread(target=_end_with_input, daemon=True).start()
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    from huggingface_hub import HfApi, constants, snapshot_download  # noqa: PLC0415 -- not in every environment

    cache = os.path.abspath(cache or os.path.expanduser(constants.HF_HUB_CACHE))
    info = HfApi(token=token).repo_info(name, repo_type=kind, revision=revision, timeout=INFO_S, files_metadata=True)
    blobs = os.path.join(cache, f"{kind}s--{name.replace('/', '--')}", "blobs")
    size, ended = sum(each.size or 0 for each in info.siblings), threading.Event()
    threading.Thread(target=_count, args=(blobs, size, ended), daemon=True).start()
    snapshot = snapshot_download(name, repo_type=kind, revision=revision, cache_dir=cache, token=token)
    ended.set()
    missing = [each.rfilename for each in info.siblings if not os.path.exists(os.path.join(snapshot, each.rfilename))]
    if missing:
        raise FileNotFoundError(f"{len(missing)} files are missing after the download: {missing[0]}")
    _say({"snapshot": [cache, os.path.basename(snapshot)]})


def _count(blobs: str, size: int, ended: threading.Event) -> None:
    """Report the bytes in `blobs` once a second."""
    found = 0
    while not ended.wait(REPORT_S):
        with contextlib.suppress(FileNotFoundError):  # Not made yet, or renamed meanwhile.
            found = sum(entry.stat().st_blocks * 512 for entry in os.scandir(blobs))
        _say({"at": found, "of": size})


def _end_with_input() -> None:
    """Exit when the controller is gone."""
    sys.stdin.buffer.read()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            path = os.readlink(f"/proc/self/fd/{name}")
            if _LOST.search(path):
                os.unlink(path)
    os._exit(1)


def _report(_: type[BaseException], error: BaseException, __: object) -> None:
    """Report what ended the download, and exit, also while other threads download."""
    names = {each.__name__ for each in type(error).__mro__}
    text = f"{type(error).__name__}: {' '.join(str(error).split())}"
    if "GatedRepoError" in names:
        kind = "gated"
    elif names & {"RepositoryNotFoundError", "RevisionNotFoundError"}:
        kind = "absent"
    elif getattr(getattr(error, "response", None), "status_code", 0) in (401, 403):
        kind = "denied"
    elif getattr(error, "errno", 0) == errno.ENOSPC or "No space left" in text:
        kind = "full"
    elif "OfflineModeIsEnabled" in names:
        kind = "offline"
    else:
        kind = "unreached" if names & _UNREACHED else "other"
    _say({"error": [kind, text[:LONGEST_TEXT]]})
    os._exit(1)


def _say(what: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")  # One write, because threads report.
    sys.stdout.flush()


def serve_snapshot(sources: list[tuple[str, str]], revision: str, commit: str) -> None:
    """Describe and serve one snapshot of a repository until the controller closes stdin: its links, the blobs that they
    lead to, and the name of the revision."""
    folder = sources[0][0]
    snapshot = os.path.join(folder, "snapshots", commit)
    wanted = [snapshot, os.path.join(folder, "refs", revision), os.path.join(folder, "trees", f"{commit}.json")]
    for directory, _, names in os.walk(snapshot):
        for path in (os.path.join(directory, name) for name in names):
            wanted += [os.path.normpath(os.path.join(directory, os.readlink(path)))] if os.path.islink(path) else []
    taken = set()
    for path in wanted:
        while path.startswith(f"{folder}/"):
            taken.add(path)
            path = os.path.dirname(path)
    pieces.serve(sources, lambda path: path in taken or path.startswith(f"{snapshot}/"))
