"""Judge recorded logs, and write the part of docs/reference/accuracy.md about them.

    .venv/bin/python benchmarks/explain_accuracy.py [--write] [--show unseen]

`seen` are the logs in tests/cases/logs, from which signatures were written; from `unseen` and `gpu` nothing was learnt.
The rows of `held_out.toml` are those of `train_classifier.py --measure`.
"""

from __future__ import annotations

import argparse
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from pylaunch.features.explain.judgement.error_form import search_of
from pylaunch.features.explain.judgement.ranker import WordWeights, weights
from pylaunch.features.explain.judgement.verdict import judge_logs
from pylaunch.store.content import signatures
from pylaunch.verdict.logs.judgement import ABSTAINING
from pylaunch.verdict.logs.scan import scan

ROOT = Path(__file__).parents[1]
CASES = ROOT / "tests/cases"
PAGE = ROOT / "docs/reference/accuracy.md"
HELD_OUT = ROOT / "benchmarks/classifier/held_out.toml"
HEADING = "## Logs from outside"
FILES = {
    "unseen": "unseen_logs.toml",
    "gpu": "gpu_logs.toml",
    "seen": "logs/*.toml",
    "healthy": "healthy_logs.toml",
    "threads, sixth batch": "thread_logs.toml",
    "threads, seventh batch": "thread_logs_seventh.toml",
}
COLUMNS = {
    "right": "right alone",
    "among": "among three",
    "wrong": "wrong alone",
    "missed": "others shown",
    "silent": "silent",
    "blamed": "no cause in it, blamed",
    "healthy": "healthy, blamed",
    "rank": "rank right",
    "other rank": "rank wrong",
}
INTRODUCTION = """\
`explain` judges recorded logs, by `benchmarks/explain_accuracy.py --write`. What a log shows was settled by its thread,
or by the program that was written to fail so, before anything was run on it.

- *unseen*: excerpts of public threads from which nothing was learnt; half of them have one or two lines.
- *gpu*: whole logs of programs that each fail in one known way, on a machine with one H200. No words were learnt from
  them; signatures were mended after they had been judged once.
- *seen*: logs from which signatures were written. Their row is a training score, and no rate to expect.
- *healthy*: logs of runs that ended well.
- *seen, held out*: the seen ones, each by weights of words that were fitted without it.
- *threads*: public threads, drawn by a rule: the first thread of each query that has pasted output and an outcome,
  whatever it is about. Of the first five batches only the counts of their words are kept, so these rows are the ranker
  **without one signature**, each batch by weights that were fitted without it. Of the sixth batch the texts are kept,
  so its row is `explain` as it is, by weights that were fitted without it; the share of the words below which a
  signature is not sure was chosen with it in view. `benchmarks/train_classifier.py --measure` repeats these six. The
  seventh batch (the first two threads of each query) was judged once, and nothing was learnt from it. It is easier than
  the sixth: more of its queries name a symptom, and in one of its logs only no cause is to be seen (13 in the sixth).

*Right alone*: the one cause that is named is that of the thread, or one that it left open. *Among three*: it is one of
up to three that are shown without a decision. *Others shown*: it is not among these. *No cause in it*: logs whose text
does not show why it failed; naming one cause alone is an error. *Rank*: of the logs in which a rank is to blame.

The next log of a cluster fares worse than the unseen ones. When they were new, the five batches of threads (546 logs)
got their cause alone in 46 % and a wrong one in 6 %: a text that is learnt from one thread is seldom in the next one.
"""


@dataclass(frozen=True)
class Judged:
    """Verdict on one log."""

    name: str
    expected: tuple[str, ...]
    """Causes that are right; () if none may be named."""

    named: tuple[str, ...]
    """Causes that are shown, at most three; one that is named alone has a confidence."""

    confidence: str = ""
    """Confidence in a cause that is named alone; "" for several, or for a possibility (low confidence)."""

    is_healthy: bool = False
    ranks: tuple[int, ...] = ()
    """Ranks that are to blame."""

    accused: tuple[int, ...] = ()
    """Ranks that the verdict names."""

    @property
    def outcome(self) -> str:
        """Return a key of COLUMNS; "" for a log without a cause that got none."""
        if self.is_healthy:
            return "healthy" if self.named else ""
        if not self.expected:
            return "blamed" if self.confidence else ""
        is_there = not set(self.named).isdisjoint(self.expected)
        if self.confidence:
            return "right" if is_there else "wrong"
        return "among" if is_there else "missed" if self.named else "silent"

    @property
    def of_ranks(self) -> str:
        """Return "rank" or "other rank"; "" if none is to blame and none is named, or nobody is named."""
        if not self.accused:
            return ""
        return "rank" if self.accused == self.ranks else "other rank" if self.ranks else ""


class Rates:
    """Counts of one row."""

    def __init__(self, cases: Iterable[Judged]) -> None:
        cases = list(cases)
        self.counts = Counter(chain.from_iterable((each.outcome, each.of_ranks) for each in cases))
        self.of = {
            **dict.fromkeys(COLUMNS, sum(bool(each.expected) for each in cases)),
            "blamed": sum(not each.expected and not each.is_healthy for each in cases),
            "healthy": sum(each.is_healthy for each in cases),
            **dict.fromkeys(("rank", "other rank"), sum(bool(each.ranks) for each in cases)),
        }
        for confidence in ("high", "medium"):
            alone = [each for each in cases if each.confidence == confidence]
            self.of[confidence] = len(alone)
            self.counts[confidence] = sum(each.outcome == "right" for each in alone)

    def share(self, *names: str) -> float:
        """Return the share of the logs that may have these outcomes."""
        return sum(self.counts[name] for name in names) / max(1, self.of[names[0]])

    def data(self) -> dict[str, list[int]]:
        """Return the counts with the numbers of logs, as `held_out.toml` has them."""
        return {name: [self.counts[name], of] for name, of in self.of.items()}


def recorded(files: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the cases of some files of tests/cases with their names."""
    for file in sorted(CASES.glob(files)):
        for name, case in tomllib.loads(file.read_text(encoding="utf-8")).items():
            yield name, {"healthy": file.name == "healthy_logs.toml", **case}


def judged(cases: Iterable[tuple[str, Mapping[str, Any]]], words: WordWeights | None = None) -> Iterator[Judged]:
    """Yield the verdict on every case, by the weights of the package or by others."""
    catalogue = signatures()
    search = search_of(catalogue)
    for name, case in cases:
        verdict = judge_logs(catalogue, [scan(search, f"{name}.log", [case["text"].encode()])], words or weights())
        first, is_healthy = verdict.first, case.get("healthy", False)
        expected = () if is_healthy or case.get("abstains") else (case["cause"], *case.get("also", ()))
        is_named = first is not None and (first.cause.id not in ABSTAINING or first.cause.id in expected)
        named = (first.cause.id, *(each.id for each in first.also)) if first is not None and is_named else ()
        named = named or tuple(each.cause for each in verdict.suggestions)
        if is_healthy and verdict.failed:
            named = named or ("a failure",)
        is_sole = first is not None and is_named and first.is_sole and verdict.first_error is None
        accused = () if first is None else first.ranks
        yield Judged(name, expected, named, first.confidence.value if first is not None and is_sole else "",
                     is_healthy, tuple(case.get("ranks", ())), accused)  # fmt: skip


def table(rows: Mapping[str, Mapping[str, Sequence[int]]]) -> Iterator[str]:
    """Yield the lines of the table: a count, of how many, and the share."""
    columns = {**COLUMNS, "high": "high right", "medium": "medium right"}
    yield f"| logs | {' | '.join(columns.values())} |"
    yield f"|---|{'---|' * len(columns)}"
    for name, row in rows.items():
        yield f"| {name} | {' | '.join(share(*row.get(column, (0, 0))) for column in columns)} |"


def share(part: int, whole: int) -> str:
    """Return a count of how many, with its share."""
    return f"{part} of {whole} ({100 * part / whole:.0f} %)" if whole else ""


def part_of(rows: Mapping[str, Mapping[str, Sequence[int]]]) -> str:
    """Return the part of the page."""
    return f"{HEADING}\n\n{INTRODUCTION}\n" + "\n".join(table(rows)) + "\n"


def with_part(page: str, part: str) -> str:
    """Return a page whose part about logs is `part`; it is the last one."""
    return f"{page.partition(HEADING)[0].rstrip()}\n\n{part}"


def shown(cases: Iterable[Judged]) -> Iterator[str]:
    """Yield a line for every case that has not its cause alone, or a rank that it should not have."""
    for each in cases:
        if each.outcome not in ("right", "") or each.of_ranks == "other rank" or (each.ranks and not each.accused):
            named = f"{', '.join(each.named)} ({each.confidence})"
            yield f"{each.outcome}: {each.name}: {named}, expected {', '.join(each.expected)}"
            if each.ranks != each.accused:
                yield f"  names ranks {list(each.accused)} instead of {list(each.ranks)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the part of the page")
    parser.add_argument("--show", choices=FILES)
    given = parser.parse_args()
    found = {name: list(judged(recorded(files))) for name, files in FILES.items()}
    if given.show:
        print("\n".join(shown(found[given.show])))
    rows = {name: Rates(cases).data() for name, cases in found.items()}
    rows |= tomllib.loads(HELD_OUT.read_text(encoding="utf-8")) if HELD_OUT.exists() else {}
    print("\n".join(table(rows)))
    if given.write:
        PAGE.write_text(with_part(PAGE.read_text(encoding="utf-8"), part_of(rows)), encoding="utf-8")


if __name__ == "__main__":
    main()
