"""Judge recorded logs of public threads, and write the part of docs/reference/accuracy.md about them.

    .venv/bin/python benchmarks/explain_accuracy.py [--write] [--show seen|unseen]

Signatures were written from the logs in tests/cases/logs. Those in tests/cases/unseen_logs.toml are the newest batch:
their rows show what to expect of a new log until signatures are mended from them.
"""

from __future__ import annotations

import argparse
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from pylaunch.features.explain.judgement.alike import with_alike
from pylaunch.features.explain.judgement.topics import search_of
from pylaunch.features.explain.judgement.verdict import judge_logs
from pylaunch.features.explain.recorded_words import classifier
from pylaunch.store.signatures import signatures
from pylaunch.verdict.logs.judgement import ABSTAINING
from pylaunch.verdict.logs.scan import scan

ROOT = Path(__file__).parents[1]
CASES = ROOT / "tests/cases"
PAGE = ROOT / "docs/reference/accuracy.md"
HEADING = "## Logs from outside"
FILES = {"seen": "logs/*.toml", "unseen": "unseen_logs.toml"}
GOALS = {"high": 95, "medium": 75}
OUTCOMES = ("right", "among several", "not among several", "no cause", "wrong")
INTRODUCTION = """\
Excerpts of logs from public issue trackers whose threads settled on a cause.
`benchmarks/explain_accuracy.py --write` judges them again and writes this part.

*Seen*: signatures were written from them, or mended after they had been judged. *Unseen*: none was. *Right*: the one
cause that is named is that of the thread, or one that the thread left open. *Among several*: that cause is one of
several that `explain` named without deciding, or a possible one (low confidence). *No cause*: `explain` named none, and
the thread settled on one. An excerpt that does not hold its cause is right if no cause is named for it.

The rate to expect of a new log is that of a batch that was judged before anything was learnt from it: 59 logs (32
right, 24 without a cause, 3 wrong), 33 (16, 12, 5), 42 (25, 14, 3), 28 (18, 9, 1), all of a collector who wrote
signatures, then 50 (33, 9, 8), 48 (37, 6, 5; high 24 of 27, medium 1 of 2), 50 (41, 6, 3; high 29 of 31, medium 5 of
6) and 60 (45, 9, 6; high 25 of 26, medium 8 of 11) of one who did not. They are among the seen logs since, where labels
that proved too narrow were widened, and those of texts that do not show the cause became labels for which none may be
named.

Since the last of them, `explain` names several causes where the texts do not decide. A batch after that: 60 (41 right,
2 with several causes, 9 without a cause, 8 wrong; high 34 of 39, medium 6 of 9); it is among the seen logs, too. Then
the causes of about a hundred texts were counted in public threads, and texts with several got them all.

The unseen ones are two batches after that, collected and labelled before anything was run on them, and judged once: 60
(45 right, 3 among several, 3 not among several, 8 without a cause, 1 wrong) and 63 (53, 3, 1, 5, 1). Of their 102 logs
that show their cause, 81 got it alone and 6 among several. Their logs are fragments as the threads show them, half of
them of one or two lines; the second batch is retyped with other numbers, names and paths. They are easier than the
batch before: the version before the counting had 101 right and 3 wrong on them, with nearly the same answers.

Five batches of hard logs came after that, most of them whole logs of programs that were written to fail on CPUs where
victims are louder than the culprit, or the culprit is silent (torchrun, JAX, Open MPI, Ray, launchers of their own),
the others longer excerpts of threads. Sentences that were written down before decided what is right. Each batch was
judged once, and learnt from after it; of the logs that show their cause:

| batch | logs | right | among several, possible or in part | wrong | high | medium | healthy logs not left alone |
|---|---|---|---|---|---|---|---|
| 1 | 84 | 40 (48 %) | 15 | 7 (8 %) | | | 3 of 8 |
| 2 | 79 | 33 (42 %) | 11 | 5 (6 %) | | | 2 of 9 |
| 3 | 66 | 34 (52 %) | 3 | 9 (14 %) | 22 of 24 | 12 of 20 | 0 of 8 |
| 4 | 80 | 36 (45 %) | 12 | 11 (14 %) | | | 2 of 9 |
| 5 | 87 | 52 (60 %) | 16 | 8 (9 %) | 21 of 26 | 31 of 40 | 3 of 9 |

The version that judged batch 4 had 40 right (46 %) and 4 wrong of batch 5. So three of five such logs get their one
cause, and one in eleven a wrong one; the rates above are those of shorter and plainer errors. Three of the eight wrong
answers to batch 5 took the signal that ended a hung run for its cause; that, a false name of a signal and a cause lost
behind retries with the same words were mended afterwards, and have not been judged again.
The whole logs of the first batches that are explained now are among the seen logs, with some of the others.

Then threads of public trackers were drawn by a rule: the first thread of each query that has pasted output and an
outcome, whatever it is about. The collectors knew neither the classes nor what `explain` says, and wrote down what is
right. Each batch was judged once, before anything was learnt from it; of the logs that show their cause:

| drawn | logs | right | several, or in part | the first error | no cause | wrong | high | medium | healthy, blamed |
|---|---|---|---|---|---|---|---|---|---|
| first | 126 | 55 (44 %) | 18 | 30 | 15 | 8 (6 %) | 42 of 51 | 12 of 21 | 1 of 9 |
| second | 80 | 37 (46 %) | 15 | 16 | 10 | 2 (2 %) | 20 of 20 | 10 of 16 | 0 of 2 |
| third | 81 | 36 (44 %) | 17 | 12 | 4 | 12 (15 %) | 24 of 29 | 11 of 24 | 1 of 4 |
| fourth | 228 | 112 (49 %) | 39 | 35 | 32 | 10 (4 %) | 76 of 83 | 36 of 52 | 2 of 12 |
| fifth | 31 | 13 (42 %) | 7 | 4 | 6 | 1 (3 %) | 8 of 8 | 5 of 7 | 0 of 5 |

The version that judged the first had 35 right of the second: a text that is learnt from one log is seldom in the next
one. Forms that were learnt from the messages in the sources of 91 libraries changed no answer to the third. Most of
its wrong answers blamed the program or its arguments, the driver or the hub for a message about something else; these
classes abstain now where a log does not carry them, and forms were learnt from 58 of its logs. Of the other 23, the
version after that has 10 right (9 before) and the same 2 wrong. A third of these logs are errors of tools around the
training (installers, clouds, Kubernetes, schedulers) or of one release of one library. Most have one to twenty lines,
because a search shows that much of a thread. Those of the fourth batch were drawn less strictly, and are easier.

Since the fourth batch, the words of a log are compared with those of known causes where nothing else names one, and
with a cause of medium confidence. Of the fifth, the version that judged the fourth had the same 13 right; three of its
18 others got their cause among possible ones, two got others only. `benchmarks/train_classifier.py --measure` fits the
comparison without each batch in turn, and asks it about all logs of the batch, also those whose cause a signature
names: of 538, the likeliest class is one that the thread allows in 310 (58 %), one of up to three in 376 (70 %), and
none is named for 84. Three thousand of its texts are messages of programs, written from memory.

The collectors of the other batches had read the list of the classes, and searched by symptoms: plain errors are more
frequent among these logs than among those of a cluster, many have one to four lines, and some of the seen were
completed in the form of the program.

Whole logs of programs that were each written to fail in one known way, on a machine with one H200 (torch 2.11, JAX
0.11, transformers, Lightning, accelerate, Triton), were judged before anything was learnt from them, too: 77 (62, 5,
10; high 38 of 40, medium 19 of 26, low 5 of 6). Of 19 logs of programs that ended well there, one was blamed (low).
"""


@dataclass(frozen=True)
class Judged:
    """Verdict on one case."""

    name: str
    expected: tuple[str, ...]
    """Causes that are right; () if none may be named."""

    named: tuple[str, ...]
    """Cause of the verdict; several between which the text does not decide; () if it names none."""

    confidence: str
    """Confidence in a cause that is named alone; "" for several, or for a possibility (low confidence)."""

    @property
    def outcome(self) -> str:
        """Return one of OUTCOMES."""
        if not self.named:
            return "no cause" if self.expected else "right"
        is_there = not set(self.named).isdisjoint(self.expected)
        if not self.confidence:
            return "among several" if is_there else "not among several"
        return "right" if is_there else "wrong"


def judged(files: Iterable[Path]) -> Iterator[Judged]:
    """Yield the verdict on every case of some files."""
    catalogue = signatures()
    search = search_of(catalogue)
    recorded = chain.from_iterable(tomllib.loads(file.read_text(encoding="utf-8")).items() for file in files)
    for name, case in recorded:
        scans = [scan(search, f"{name}.log", [case["text"].encode()])]
        first = with_alike(judge_logs(catalogue, scans), scans, classifier(), catalogue).first
        expected = () if case.get("abstains") else (case["cause"], *case.get("also", ()))
        is_named = first is not None and (first.cause.id not in ABSTAINING or first.cause.id in expected)
        named = (first.cause.id, *(each.id for each in first.also)) if first is not None and is_named else ()
        is_sole = first is not None and is_named and first.is_sole
        yield Judged(name, expected, named, first.confidence.value if first is not None and is_sole else "")


def table(rows: Mapping[str, list[Judged]]) -> Iterator[str]:
    """Yield the lines of the part below its introduction."""
    yield f"| logs | cases | {' | '.join(OUTCOMES)} |"
    yield "|---|---|---|---|---|---|---|"
    for name, cases in rows.items():
        found = Counter(each.outcome for each in cases)
        shown = " | ".join(share(found[outcome], len(cases)) for outcome in OUTCOMES)
        yield f"| {name} | {len(cases)} | {shown} |"
    yield ""
    yield "Where one cause was named, by its confidence (goals on unseen logs: high 95 %, medium 75 %):"
    yield ""
    yield "| logs | confidence | named | right | wrong |"
    yield "|---|---|---|---|---|"
    for name, cases in rows.items():
        for confidence in GOALS:
            named = [each for each in cases if each.confidence == confidence]
            right = sum(each.outcome == "right" for each in named)
            yield f"| {name} | {confidence} | {len(named)} | {share(right, len(named))} | {len(named) - right} |"


def share(part: int, whole: int) -> str:
    """Return a count with its share."""
    return f"{part} ({100 * part / whole:.0f} %)" if whole else "0"


def part_of(rows: Mapping[str, list[Judged]]) -> str:
    """Return the part of the page."""
    return f"{HEADING}\n\n{INTRODUCTION}\n" + "\n".join(table(rows)) + "\n"


def with_part(page: str, part: str) -> str:
    """Return a page whose part about logs is `part`; it is the last one."""
    return f"{page.partition(HEADING)[0].rstrip()}\n\n{part}"


def shown(cases: Iterable[Judged]) -> Iterator[str]:
    """Yield a line for every case that is not right."""
    for each in cases:
        if each.outcome != "right":
            named = f"{', '.join(each.named)} ({each.confidence})"
            yield f"{each.outcome}: {each.name}: {named}, expected {', '.join(each.expected)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the part of the page")
    parser.add_argument("--show", choices=FILES)
    given = parser.parse_args()
    rows = {name: list(judged(tuple(sorted(CASES.glob(files))))) for name, files in FILES.items()}
    if given.show:
        print("\n".join(shown(rows[given.show])))
    part = part_of(rows)
    print(part)
    if given.write:
        PAGE.write_text(with_part(PAGE.read_text(encoding="utf-8"), part), encoding="utf-8")


if __name__ == "__main__":
    main()
