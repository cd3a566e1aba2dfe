"""Fit the weights of words with which `explain` compares failures (`pylaunch/features/explain/words.txt`).

    .venv/bin/pip install scikit-learn
    .venv/bin/python benchmarks/train_classifier.py           # write the weights
    .venv/bin/python benchmarks/train_classifier.py --add FOLDER
    .venv/bin/python benchmarks/train_classifier.py --measure # each batch by the others

Texts: the recorded logs of tests/cases; `threads.jsonl`, word counts of pasted logs of public threads with the causes
on which the threads settled; and `messages.jsonl`, messages of programs with their cause, written from memory. FOLDER
has logs and a `labels.toml` with `file`, `source` and `classes` of each.
"""

from __future__ import annotations

import argparse
import json
import math
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

from pylaunch.features.explain.judgement.classifier import NO_FAILURE, WordClassifier, likely, parse_classifier
from pylaunch.features.explain.judgement.topics import search_of
from pylaunch.features.explain.judgement.word_counts import word_counts
from pylaunch.store.signatures import signatures
from pylaunch.verdict.logs.scan import scan

ROOT = Path(__file__).parents[1]
CASES = ROOT / "tests/cases"
TEXTS = ROOT / "benchmarks/classifier"
WEIGHTS = ROOT / "pylaunch/features/explain/words.txt"
SEARCH = search_of(signatures())
SHARE = {"threads": 2.0, "messages": 0.5, "cases": 1.0}
"""Weight of a text by where it is from: pasted logs are nearest to those that users have."""

TEXTS_PER_WORD = 3
"""Words in fewer texts are left out."""

LEAST = 0.5
"""Smaller weights are left out, which makes the file a tenth as long."""


@dataclass(frozen=True)
class Text:
    """Words of a text with its causes."""

    source: str
    """Address of the thread, or the name of the case."""

    batch: str
    classes: tuple[str, ...]
    """The best first."""

    counts: dict[str, int]


def counted(content: bytes) -> dict[str, int]:
    """Return the word counts of a log."""
    return dict(word_counts([scan(SEARCH, "x.log", [content])]))


def cases() -> Iterator[Text]:
    """Yield the logs that signatures were written from; those that do not show their cause are left out."""
    files = sorted(CASES.glob("logs/*.toml"))
    for name, case in chain.from_iterable(tomllib.loads(file.read_text(encoding="utf-8")).items() for file in files):
        classes = (NO_FAILURE,) if case.get("healthy") else (case.get("cause", ""), *case.get("also", ()))
        if not case.get("abstains") or case.get("healthy"):
            yield Text(name, "cases", classes, counted(case["text"].encode()))
    for name, case in tomllib.loads((CASES / "healthy_logs.toml").read_text(encoding="utf-8")).items():
        yield Text(name, "cases", (NO_FAILURE,), counted(case["text"].encode()))


def recorded(name: str) -> Iterator[Text]:
    """Yield the texts of `threads.jsonl` or `messages.jsonl`."""
    for line in (TEXTS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        if name == "messages":
            yield Text("", "messages", (entry["class"],), counted(entry["text"].encode() + b"\n"))
        else:
            yield Text(entry["source"], entry["batch"], tuple(entry["classes"]), entry["counts"])


def add(folder: Path) -> None:
    """Add the logs of a batch whose labels name a class."""
    labels = tomllib.loads((folder / "labels.toml").read_text(encoding="utf-8"))["log"]
    with (TEXTS / "threads.jsonl").open("a", encoding="utf-8") as file:
        for label in labels:
            if set(label["classes"]) <= {*signatures().causes, NO_FAILURE}:
                counts = counted((folder / label["file"]).read_bytes())
                text = Text(label["source"], folder.name, tuple(label["classes"]), counts)
                file.write(json.dumps(asdict(text), sort_keys=True) + "\n")


def fitted(texts: Sequence[Text]) -> str:
    """Return the weights for `texts`, in the form that `parse_classifier` reads."""
    found = Counter(chain.from_iterable(each.counts for each in texts))
    words = sorted(word for word, count in found.items() if count >= TEXTS_PER_WORD)
    idf = {word: round(math.log((1 + len(texts)) / (1 + found[word])) + 1, 1) for word in words}
    at = {word: index for index, word in enumerate(words)}
    rows, columns, values = [], [], []
    for row, each in enumerate(texts):
        weighed = {word: (1 + math.log(count)) * idf[word] for word, count in each.counts.items() if word in at}
        length = math.sqrt(sum(value * value for value in weighed.values())) or 1.0
        rows += [row] * len(weighed)
        columns += [at[word] for word in weighed]
        values += [value / length for value in weighed.values()]
    matrix = csr_matrix((values, (rows, columns)), shape=(len(texts), len(words)))
    shares = [SHARE.get(each.batch, SHARE["threads"]) for each in texts]
    model = LogisticRegression(C=30, max_iter=200).fit(matrix, [each.classes[0] for each in texts], shares)
    weights = model.coef_ - model.coef_.mean(axis=0)  # What all classes share changes no odds.
    bias = model.intercept_ - model.intercept_.mean()
    lines = ["* " + " ".join(f"{name}:{round(10 * each)}" for name, each in zip(model.classes_, bias, strict=True))]
    for word in words:
        column = weights[:, at[word]]
        kept = [f"{index}:{round(10 * column[index])}" for index in np.flatnonzero(np.abs(column) >= LEAST)]
        lines += [" ".join((word, f"{idf[word]:.1f}", *kept))] if kept else []
    return "\n".join(lines) + "\n"


def measured(texts: Sequence[Text]) -> Iterator[str]:
    """Yield a line for each batch of threads, of a classifier that was fitted without it."""
    for batch in dict.fromkeys(each.batch for each in texts if each.batch not in SHARE):
        classifier = parse_classifier(fitted([each for each in texts if each.batch != batch]))
        own = [each for each in texts if each.batch == batch and each.classes != (NO_FAILURE,)]
        yield f"{batch}: {outcome(classifier, own)}"


def outcome(classifier: WordClassifier, texts: Iterable[Text]) -> str:
    """Return how often the likeliest class is right, and one of those that `explain` would name."""
    named = [(likely(classifier.shares(each.counts)), each.classes) for each in texts]
    first = sum(bool(classes) and classes[0] in right for classes, right in named)
    among = sum(not set(classes).isdisjoint(right) for classes, right in named)
    silent = sum(not classes for classes, _ in named)
    return f"{len(named)} logs, likeliest class right {first}, among those named {among}, none named {silent}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--add", type=Path, metavar="FOLDER")
    what.add_argument("--measure", action="store_true")
    given = parser.parse_args()
    if given.add:
        add(given.add)
        return
    texts = [*cases(), *recorded("threads"), *recorded("messages")]
    if given.measure:
        print("\n".join(measured(texts)))
    else:
        head = f"# Weights of words by class (benchmarks/train_classifier.py), of {len(texts)} texts.\n"
        WEIGHTS.write_text(head + fitted(texts), encoding="utf-8")


if __name__ == "__main__":
    main()
