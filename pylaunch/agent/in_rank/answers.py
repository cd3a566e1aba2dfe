"""Stacks and collectives of this process as one line of JSON, for the agent. Loaded with the first question.

The words of a question: "collectives" adds the last entries of torch's flight recorder, "sites" their call sites too,
"progress" one entry for each group, the last one. Nothing is imported: `json` and `pickle` are used where torch has
loaded them. All lists and texts are bounded.
"""

import os
import sys
import time
from _json import encode_basestring_ascii as quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable

MOST_THREADS = 64
INNERMOST, OUTERMOST = 40, 24
"""Frames of a stack that are kept: of a deeper one, these at either end."""

MOST_FRAMES = 4000
MOST_COLLECTIVES = 300
MOST_SITE_FRAMES = 8
MOST_GROUPS = 256
MOST_RANKS = 4096
MOST_TENSORS = 8
LONGEST_TEXT = 300
NOT_DURING = {"_new_process_group_helper", "destroy_process_group", "_abort_process_group", "split_group"}
"""Functions of torch that change the groups, which a dump reads without a lock."""

DISTRIBUTED = "torch.distributed.distributed_c10d"
DEFAULT_DESCRIPTIONS = ("undefined", "")


class Places:
    """Table of places in the code, each once."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, int]] = []
        self._numbers: dict[tuple[str, str, int], int] = {}

    def numbers(self, stack: "Iterable[tuple[str, str, int | None]]") -> "list[int]":
        """Return the indices of function, path and line of each frame, without those that a full table lacks."""
        found = []
        for function, path, line in stack:
            place = (function, path[-LONGEST_TEXT:], line or 0)
            if place not in self._numbers and len(self.rows) < MOST_FRAMES:
                self._numbers[place] = len(self.rows)
                self.rows.append(place)
            if place in self._numbers:
                found.append(self._numbers[place])
        return found


def answer(words: "list[str]", main: int) -> str:
    """Return the answer to a question with these words; `main` identifies the main thread."""
    places, notes = Places(), []
    stacks = frames_of_threads()
    groups: list[object] = []
    collectives: list[object] = []
    bindings = sys.modules.get("torch._C._distributed_c10d")
    if bindings is not None and {"collectives", "sites", "progress"}.intersection(words):
        running = {code.co_name for stack in stacks.values() for code, _ in stack}
        if NOT_DURING & running:
            notes.append("collectives are not read while process groups change")
        else:
            groups = process_groups()
            try:
                collectives = recorded(bindings, words, stacks, places, notes)
            except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
                notes.append(f"the flight recorder cannot be read: {type(error).__name__}")
    threads = [
        (
            name,
            ident == main,
            places.numbers((code.co_name, code.co_filename, line) for code, line in ends(stacks[ident])),
        )
        for ident, name in thread_names(stacks, main)
    ]
    fields = {
        "pid": os.getpid(), "time": time.time(), "frames": places.rows, "threads": threads, "groups": groups,
        "collectives": collectives, "note": "; ".join(notes), "place": place_in_group(), "handles": handled(main),
    }  # fmt: skip
    return dumped(fields)


def frames_of_threads() -> "dict[int, list[tuple[Any, int | None]]]":
    """Return the code and line of each frame by thread, innermost first, without the thread that answers."""
    stacks = {}
    for ident, innermost in sys._current_frames().items():  # noqa: SLF001 -- documented, and named so
        frame: Any = innermost
        stack = []
        while frame is not None:
            stack.append((frame.f_code, frame.f_lineno))
            frame = frame.f_back
        if stack[0][0] is not frames_of_threads.__code__:
            stacks[ident] = stack
    return stacks


def handled(thread: int) -> str:
    """Return the exception that `thread` handles, or that waits until a `finally` is over, with its place; "" for none.

    Python has it from 3.10 on. Texts that are no `str` are omitted: making them would run code of the script.
    """
    every: dict[int, Any] = getattr(sys, "_current_exceptions", dict)()
    current = every.get(thread)
    error = current[1] if isinstance(current, tuple) else current
    if error is None:
        return ""
    trace, place = error.__traceback__, ""
    while trace is not None:
        place = f" ({trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno})"
        trace = trace.tb_next
    texts = [each for each in error.args[:1] if type(each) is str]
    return ": ".join((type(error).__name__, *texts))[: LONGEST_TEXT - len(place)] + place


def ends(stack: "list[Any]") -> "list[Any]":
    """Return `stack`, a deep one without its middle."""
    return stack if len(stack) <= INNERMOST + OUTERMOST else stack[:INNERMOST] + stack[-OUTERMOST:]


def thread_names(stacks: "Iterable[int]", main: int) -> "list[tuple[int, str]]":
    """Return identifiers and names of threads, the main thread first."""
    known = getattr(sys.modules.get("threading"), "_active", {})
    idents = sorted(stacks, key=lambda ident: ident != main)[:MOST_THREADS]
    return [(ident, str(getattr(known.get(ident), "name", "MainThread" if ident == main else ""))) for ident in idents]


def place_in_group() -> "list[str]":
    """Return rank and world size of the default process group; [] without one."""
    group = getattr(getattr(sys.modules.get(DISTRIBUTED), "_world", None), "default_pg", None)
    return [] if group is None else [str(group.rank()), str(group.size())]


def process_groups() -> "list[object]":
    """Return name, description and global ranks of each process group."""
    world = getattr(sys.modules.get(DISTRIBUTED), "_world", None)
    names = dict(getattr(world, "pg_names", {}))
    ranks = getattr(world, "pg_group_ranks", {})
    found: list[object] = []
    for group, name in list(names.items())[:MOST_GROUPS]:
        description = str(getattr(group, "group_desc", ""))
        members = sorted(ranks.get(group, ()))[:MOST_RANKS]
        found.append((str(name), "" if description in DEFAULT_DESCRIPTIONS else description, members))
    return found


def recorded(
    bindings: "Any", words: "list[str]", stacks: "dict[int, Any]", places: Places, notes: "list[str]"
) -> "list[object]":
    """Return the last entries of the flight recorder, oldest first. `notes` gets what is missing."""
    dump_json = getattr(bindings, "_dump_fr_trace_json", None) or getattr(bindings, "_dump_nccl_trace_json", None)
    json, pickle = sys.modules.get("json"), sys.modules.get("pickle")
    if dump_json is None or json is None:
        notes.append("this torch has no flight recorder for its backend")
        return []
    if "progress" in words:
        return last_of_groups(json.loads(dump_json(False, False)).get("pg_status", {}))
    if "sites" in words and pickle is not None:
        if any(code.co_filename.startswith("<frozen importlib") for stack in stacks.values() for code, _ in stack):
            notes.append("call sites are not read while a thread imports a module")
        else:
            return rows(pickle.loads(dump_with_sites(bindings)).get("entries", ()), places)
    return rows(json.loads(dump_json(True, False)).get("entries", ()), places)


def dump_with_sites(bindings: "Any") -> bytes:
    """Return the pickled entries with call sites.

    torch imports torch._inductor for them, which takes seconds; an empty module in its place is enough.
    """
    dump = getattr(bindings, "_dump_fr_trace", None) or getattr(bindings, "_dump_nccl_trace")  # noqa: B009 -- older than 2.8
    is_absent = sys.modules.setdefault("torch._inductor", stand_in := type(sys)("torch._inductor")) is stand_in
    try:
        dumped_entries: bytes = dump(True, True, False)
        return dumped_entries
    finally:
        if is_absent and sys.modules.get("torch._inductor") is stand_in:
            del sys.modules["torch._inductor"]


def rows(entries: "Iterable[Any]", places: Places) -> "list[object]":
    """Return the fields of each of the last entries, as the agent decodes them."""
    now = time.time_ns()
    found: list[object] = []
    for entry in list(entries)[-MOST_COLLECTIVES:]:
        is_p2p = bool(entry.get("is_p2p"))
        backend, _, operation = str(entry["profiling_name"]).rpartition(":")
        # gloo reports no end but `retired`; with NCCL, an operation that timed out is retired, too.
        is_over = bool(entry.get("retired")) if backend == "gloo" else entry.get("state") == "completed"
        created = entry.get("time_created_ns") or 0
        frames = (entry.get("frames") or ())[:MOST_SITE_FRAMES]
        site = places.numbers((str(each["name"]), str(each["filename"]), int(each["line"])) for each in frames)
        found.append((
            str(entry["process_group"][0]),
            0 if is_p2p else int(entry["collective_seq_id"]),
            operation,
            sizes(entry.get("input_sizes")), sizes(entry.get("output_sizes")),
            [str(dtype) for dtype in (entry.get("input_dtypes") or ())[:MOST_TENSORS]],
            is_over, is_p2p,
            round((now - created) / 1e9, 3) if created else None,
            site,
        ))  # fmt: skip
    return found


def sizes(shapes: "Any") -> "list[list[int]]":
    """Return the shapes of the first tensors."""
    return [[int(length) for length in shape[:MOST_TENSORS]] for shape in (shapes or ())[:MOST_TENSORS]]


def last_of_groups(status: "dict[str, dict[str, str]]") -> "list[object]":
    """Return one entry for each group: its last collective, without operation and sizes."""
    found: list[object] = []
    for name, numbers in list(status.items())[:MOST_GROUPS]:
        last = int(numbers["last_enqueued_collective"])
        is_retired = int(numbers["last_completed_collective"]) >= last
        found.append((str(name), max(0, last), "", [], [], [], is_retired, False, None, []))
    return found


def dumped(value: "Any") -> str:
    """Return `value` as JSON with bounded texts."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return quoted(value[-LONGEST_TEXT:])
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{quoted(name)}:{dumped(each)}" for name, each in value.items()) + "}"
    return "[" + ",".join(map(dumped, value)) + "]"
