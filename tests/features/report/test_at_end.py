"""`start --report`."""

from __future__ import annotations

from pathlib import Path

import pytest

from pylaunch.errors import UsageError
from pylaunch.features.report.at_end import observer


def test_the_word_after_report_is_a_file_and_never_the_script(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--report train.py: expected a name that ends in \.html"):
        observer("train.py")
    (tmp_path / "why.html").touch()
    with pytest.raises(UsageError, match="exists already") as refused:
        observer(str(tmp_path / "why.html"))
    assert refused.value.hint == "--report=ANOTHER.html"
