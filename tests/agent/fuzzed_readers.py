"""Every reader of files that ranks write, with damaged content: python -m tests.agent.fuzzed_readers DIRECTORY COUNT.

Writes the name of each reader before its content, so that the last line names the one that crashed or never returned.
The readers run in this process, whose memory and processor time the caller limits.
"""

import base64
import contextlib
import json
import random
import struct
import sys
import time
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

from pylaunch import protocol
from pylaunch.agent.evidence import examination, rank_report
from pylaunch.agent.logs import log_files
from pylaunch.agent.logs.tail import NOTHING_SECRET
from pylaunch.agent.run import shipped_code
from pylaunch.agent.shared import record, scripts
from pylaunch.base.layout import AgentError, RunDirectory
from pylaunch.features.explain.judgement.error_form import search_of
from pylaunch.features.explain.judgement.ranker import weights
from pylaunch.features.explain.judgement.verdict import judge_logs
from pylaunch.model import node_record
from pylaunch.model.cluster import Cluster
from pylaunch.model.text.sanitise import rank_output
from pylaunch.store.content import signatures
from pylaunch.verdict.logs.scan import scan
from tests.agent.controller import task
from tests.features.report import samples

SLOW_S = 5.0
"""Processor time for one content of a few kilobytes: far more than any reader takes."""

TOKENS = (
    b"{", b"}", b"[", b"]", b'"', b",", b":", b"\x00", b"\xff", b"\n", b"\r", b"\\u0000", b"\\ud800", b"1e999", b"-1",
    b"9" * 400, b"/", b"a/", b"NaN", b"null", b")", b"\x85", b"\x86", b"q\x00", b"h\x00", b"}", b"\x8a\xff",
    b"(", b"t", b"\x1b]0;",
)  # fmt: skip
ANSWER = {
    "frames": [["f", "a.py", 3]], "threads": [["MainThread", True, [0]]], "groups": [["0", "default", [0, 1]]],
    "collectives": [["0", 1, "all_reduce", [[2]], [[2]], ["Float"], False, False, 1.0, [0]]], "note": "",
    "handles": "", "place": ["0", "3"],
}  # fmt: skip
ERROR = {"message": {"message": "ValueError: x", "extraInfo": {"py_callstack": '  File "a.py", line 3, in f\n'}}}
MANIFEST = json.dumps({"files": [["a/b.py", 420, 1, "0" * 64]], "links": [["a/c", "b.py"]]}).encode()
FAULT = b'Current thread 0x00007f (most recent call first):\n  File "a.py", line 3 in f\n'
SCRIPT = b"import torch\nfrom torch import distributed as dist\ndist.TCPStore('a', 1, is_master=True)\n"
LOG = b'[rank1]: Traceback (most recent call last):\n[rank1]:   File "a.py", line 3, in f\n[rank1]: ValueError: 3/7\n'


def written(name: str, directory: RunDirectory, read: Callable[[], object]) -> Callable[[bytes], object]:
    """Return a reader of the file `name` of the run, which gets the content first."""

    def of(content: bytes) -> object:
        path = Path(directory.file(name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return read()

    return of


def readers(directory: RunDirectory) -> dict[str, tuple[Callable[[bytes], object], tuple[type[Exception], ...], bytes]]:
    """Return each reader with the exceptions that it may raise, and content that it accepts."""
    search, known = search_of(signatures()), signatures()
    prepare = protocol.encode(protocol.Prepare(task(Path("/srv"), ["true"], run=directory.run)))
    ended = json.dumps(vars(record.NodeOutcome("finished", ""))).encode()
    kept = zlib.decompress(base64.b64decode(node_record.pack(samples.plan(2, 2), "0" * 16, 1.0)))
    return {
        "rank.answer": (examination.decoded_answer, (ValueError,), json.dumps(ANSWER).encode()),
        "rank.faulthandler": (
            lambda content: examination.stacks_of_faulthandler(content.decode("utf-8", "replace")), (ValueError,),
            FAULT,
        ),
        "rank.error": (
            written("ranks/0.error.json", directory, lambda: rank_report.error(directory, 0, NOTHING_SECRET)), (),
            json.dumps(ERROR).encode(),
        ),
        "rank.step": (
            written("ranks/0.step", directory, lambda: rank_report.last_step(directory, 0)), (),
            struct.pack("<qdqq", 3, 1.0, 7, 3),
        ),
        "run.task": (written("task.json", directory, lambda: record.read_task(directory)), (), prepare),
        "run.events": (
            written("events.jsonl", directory, lambda: record.read_events(directory)), (),
            protocol.encode(protocol.RankStarted(0, 42, 1.0)) * 3,
        ),
        "run.outcome": (written("outcome.json", directory, lambda: record.read_outcome(directory)), (), ended),
        "run.times": (
            written("times/0.out", directory, lambda: log_files.read(directory.times("0.out"))), (),
            struct.pack("<dq", 1.0, 7) * 4,
        ),
        "run.record": (
            lambda content: node_record.unpack(base64.b64encode(zlib.compress(content)).decode(), Cluster(())),
            (node_record.NotARecordError,), kept,
        ),
        "code.manifest": (shipped_code.decoded, (AgentError,), MANIFEST),
        "code.imports": (
            lambda content: scripts.names_of("a.py", content.decode("utf-8", "replace")), (), SCRIPT,
        ),
        "output.log": (lambda content: judge_logs(known, [scan(search, "a", [content])], weights()), (), LOG),
        "output.line": (lambda content: rank_output(content.decode("utf-8", "surrogateescape")), (), LOG),
    }  # fmt: skip


def damaged(content: bytes, chance: random.Random) -> bytes:
    """Return `content` after one to four changes: bytes, tokens, cuts, pieces in other places, long repetitions."""
    for _ in range(chance.randint(1, 4)):
        at, other = chance.randint(0, len(content)), chance.randint(0, len(content))
        begin, end = min(at, other), max(at, other)
        kind = chance.randrange(6)
        if kind == 0:
            content = content[:at] + bytes([chance.randrange(256)]) + content[at + 1 :]
        elif kind == 1:
            content = content[:at] + chance.choice(TOKENS) + content[at:]
        elif kind == 2:
            content = content[:begin] + content[end:]
        elif kind == 3:
            content = content[:at] + content[begin:end] + content[at:]
        elif kind == 4:
            content = content[:begin] + content[begin:end] * chance.randint(2, 200) + content[end:]
        else:
            content = content[:at] + chance.choice(TOKENS) * chance.randint(2, 5000) + content[at:]
        content = content[:200_000]
    return content


def fuzz(names: Iterable[str], directory: RunDirectory, count: int) -> None:
    """Read `count` damaged contents with each reader. Raises what a reader raises and may not."""
    table = readers(directory)
    for name in names or table:
        sys.stdout.write(f"{name}\n")
        sys.stdout.flush()
        read, may_raise, content = table[name]
        assert read(content), f"{name} does not accept its sample"
        chance = random.Random(name)
        for number in range(count):
            given = damaged(content, chance)
            begun = time.process_time()
            try:
                with contextlib.suppress(*may_raise):
                    read(given)
            except Exception:
                Path(directory.file("content")).write_bytes(given)
                raise
            took = time.process_time() - begun
            assert took < SLOW_S, f"{name}: content {number} took {took:.1f} s"


if __name__ == "__main__":
    fuzz(sys.argv[3:], RunDirectory("7f3a9c01", sys.argv[1]), int(sys.argv[2]))
    sys.stdout.write("all\n")
