"""The agent's own parser of its command line, which takes the place of argparse."""

import pytest

from pylaunch.agent.commands import parsed
from pylaunch.base.layout import AgentError


def test_options_of_a_verb() -> None:
    found = parsed("job", ["--job", "17", "--root", "/r", "--idle", "2.5"])
    assert found == {"job": "17", "root": "/r", "idle": "2.5"}
    assert parsed("clean", ["--dry-run"]) == {"dry-run": ""}
    assert parsed("node", ["--dry-run", "--root", "-x"]) == {"root": "-x", "dry-run": ""}


@pytest.mark.parametrize(
    ("verb", "words"),
    [
        ("", []),
        ("--help", []),
        ("no-such", ["--root", "/r"]),
        ("open", []),
        ("open", ["--run"]),
        ("open", ["--run", "a", "--run", "b"]),
        ("open", ["--run", "a", "--job", "1"]),
        ("open", ["--run", "a", "--dry-run"]),
        ("hello", ["--run", "a"]),
        ("hello", ["/r"]),
        ("job", ["--job", "17", "--idle", "soon"]),
    ],
)
def test_other_words_are_refused(verb: str, words: list[str]) -> None:
    with pytest.raises(AgentError, match="expected"):
        parsed(verb, words)
