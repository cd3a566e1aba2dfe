"""Commands that explanations of failures name are accepted as they are written."""

from collections.abc import Iterator

import pytest

from pylaunch.store.signatures import signatures
from pylaunch.verdict.causes.cause_kinds import KINDS
from tests.hinted_commands import commands_in, must_be_accepted


def texts() -> Iterator[str]:
    """Yield the hints of all kinds of causes, and the checks and repairs of all classes."""
    yield from (kind.hint.format(host="n1", rank=0, device="eth0", job="12") for kind in KINDS.values())
    for each in signatures().causes.values():
        yield from (each.check, *each.fix)


@pytest.mark.parametrize("text", sorted({text for text in texts() if any(commands_in(text))}))
def test_a_command_in_an_explanation_is_accepted(text: str) -> None:
    for words in commands_in(text):
        must_be_accepted(words)
