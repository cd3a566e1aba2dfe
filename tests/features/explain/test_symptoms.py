"""Texts that the page of symptoms quotes are recognised as the cause that the page links."""

import re
from pathlib import Path

import pytest

from pylaunch.features.explain.work import explain_files

PAGE = Path(__file__).parents[3] / "docs/guides/symptoms.md"
ROW = re.compile(r"^\| `([^`]+)`[^|]* \| ([^|]*) \|", re.MULTILINE)
CAUSE = re.compile(r"\(\.\./reference/errors-\w+\.md#([\w-]+)\)")
ONLY_PLACES = {"device 0 is leased to run …", "Setting ds_accelerator to cuda (auto detect)"}
"""A message of pylaunch itself, and a line that is no failure."""

ROWS = [(text, CAUSE.findall(causes)) for text, causes in ROW.findall(PAGE.read_text()) if text not in ONLY_PLACES]


@pytest.mark.parametrize(("text", "causes"), ROWS, ids=[text[:40] for text, _ in ROWS])
def test_a_quoted_text_has_the_linked_cause(text: str, causes: list[str], tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text(f"{text}\n")
    found = [each.cause.id for each in explain_files([log]).verdict.causes]
    assert found[:1] == causes[:1], text


def test_all_pages_of_errors_are_linked() -> None:
    linked = set(re.findall(r"\(\.\./reference/(errors-\w+)\.md\)", PAGE.read_text()))
    assert linked >= {path.stem for path in PAGE.parents[1].glob("reference/errors-*.md")}
