"""Fit the weights of words with which `explain` ranks causes (`pylaunch/features/explain/words.txt`).

    .venv/bin/pip install scikit-learn
    .venv/bin/python benchmarks/train_classifier.py           # write the weights
    .venv/bin/python benchmarks/train_classifier.py --measure # judge every log by weights of others: held_out.toml

Texts: the recorded logs of tests/cases; `threads.jsonl`, word counts of pasted logs of public threads with the causes
on which the threads settled; and `messages.jsonl`, messages of programs with their cause, written from memory. The
unseen logs, and those of the machine with a GPU, are never learnt from.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from explain_accuracy import FILES, HELD_OUT, Judged, Rates, judged, recorded
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

from pylaunch.features.explain.judgement.error_form import search_of
from pylaunch.features.explain.judgement.ranker import (
    ALONE,
    NO_FAILURE,
    WordWeights,
    likely,
    parse_weights,
    word_counts,
)
from pylaunch.store.content import signatures
from pylaunch.verdict.logs.scan import scan

ROOT = Path(__file__).parents[1]
TEXTS = ROOT / "benchmarks/classifier"
WEIGHTS = ROOT / "pylaunch/features/explain/words.txt"
SEARCH = search_of(signatures())
SHARE = {"threads": 2.0, "messages": 0.5, "cases": 1.0}
"""Weight of a text by where it is from: pasted logs are nearest to those that users have."""

TEXTS_PER_WORD = 3
"""Words in fewer texts are left out."""

FOLDS = 3
"""Parts of the seen logs, each of which is judged by weights of the others."""

SIXTH = "threads, sixth batch"
"""Row of the threads whose texts are kept."""

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
    """Yield the logs that signatures were written from, and the batch of threads that is kept as texts.

    Those that do not show their cause are left out.
    """
    threads = dict(recorded(FILES[SIXTH]))
    for name, case in chain(recorded(FILES["seen"]), recorded(FILES["healthy"]), threads.items()):
        classes = (NO_FAILURE,) if case["healthy"] else (case.get("cause", ""), *case.get("also", ()))
        if case["healthy"] or not case.get("abstains"):
            yield Text(name, "sixth" if name in threads else "cases", classes, counted(case["text"].encode()))


def collected(name: str) -> Iterator[Text]:
    """Yield the texts of `threads.jsonl` or `messages.jsonl`."""
    for line in (TEXTS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        if name == "messages":
            yield Text("", "messages", (entry["class"],), counted(entry["text"].encode() + b"\n"))
        else:
            yield Text(entry["source"], entry["batch"], tuple(entry["classes"]), entry["counts"])


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


def measured(texts: Sequence[Text]) -> Iterator[tuple[str, Rates]]:
    """Yield the rates of logs whose words the weights do not know: seen ones by folds, then each batch of threads."""
    every = [*recorded(FILES["seen"])]
    rows: list[Judged] = []
    for fold in range(FOLDS):
        own = every[fold::FOLDS]
        names = {name for name, _ in own}
        words = parse_weights(fitted([each for each in texts if each.source not in names]))
        rows += judged(own, words)
    yield "seen, held out", Rates(rows)
    for batch in dict.fromkeys(each.batch for each in texts if each.batch not in SHARE):
        words = parse_weights(fitted([each for each in texts if each.batch != batch]))
        own = (each for each in texts if each.batch == batch)
        row = f"threads, {batch} batch"
        yield row, Rates(judged(recorded(FILES[row]), words) if row == SIXTH else by_words(words, own))


def by_words(words: WordWeights, texts: Iterable[Text]) -> Iterator[Judged]:
    """Yield what the words alone name for threads whose text shows a cause."""
    for each in texts:
        if each.classes != (NO_FAILURE,):
            shares = words.shares(each.counts)
            named = likely(shares)
            is_sole = bool(named) and shares[named[0]] >= ALONE
            yield Judged(each.source, each.classes, named[:1] if is_sole else named, "medium" if is_sole else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", action="store_true")
    given = parser.parse_args()
    texts = [*cases(), *collected("threads"), *collected("messages")]
    if given.measure:
        lines = ["# Rates of logs by weights that were fitted without them (train_classifier.py --measure).\n"]
        for name, rates in measured(texts):
            lines += [f'\n["{name}"]\n', *(f'"{column}" = {counts}\n' for column, counts in rates.data().items())]
            HELD_OUT.write_text("".join(lines), encoding="utf-8")
    else:
        head = f"# Weights of words by class (benchmarks/train_classifier.py), of {len(texts)} texts.\n"
        WEIGHTS.write_text(head + fitted(texts), encoding="utf-8")


if __name__ == "__main__":
    main()
