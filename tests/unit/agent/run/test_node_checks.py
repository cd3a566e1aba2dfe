from pathlib import Path
from typing import Any

import pytest

from pylaunch.agent.run import checks
from pylaunch.agent.shared.programs import ProgramEnd
from pylaunch.base.layout import NodeRoot
from tests.agent.controller import task

SESSION = "0::/user.slice/user-1000.slice/session-7.scope\n"


@pytest.mark.parametrize(
    ("properties", "answer"),
    [
        ("b true\nas 0\nas 0\n", True),
        ("b false\nas 0\nas 0\n", False),
        ('b true\nas 0\nas 2 "root" "ml"\n', False),
        ('b true\nas 1 "ann"\nas 1 "root"\n', False),
        ('b true\nas 2 "ann" "ml"\nas 1 "root"\n', True),
        ("", False),
    ],
)
def test_logind_ends_the_users_that_its_configuration_names(properties: str, answer: bool) -> None:
    assert checks.kills(properties, "ml") is answer


@pytest.mark.parametrize(
    ("cgroups", "refused"),
    [
        (SESSION, True),
        ("1:name=systemd:/user.slice/user-0.slice/session-c2.scope\n0::/\n", True),
        ("0::/system.slice/ssh.service\n", False),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-1.scope\n", False),
        (None, False),
    ],
)
def test_a_node_that_ends_the_run_with_the_session_of_its_start_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cgroups: str | None, refused: bool
) -> None:
    def text_or_none(path: str) -> str | None:
        return cgroups

    def ended(words: list[str], *, deadline_s: float) -> ProgramEnd:
        assert words[0] == "busctl"
        return ProgramEnd(0, "b true\nas 0\nas 0\n", "")

    monkeypatch.setattr(checks, "ended", ended)
    monkeypatch.setattr(checks, "text_or_none", text_or_none)
    found: Any = checks.problems(task(tmp_path, "true"), NodeRoot(str(tmp_path)).run("r1"))
    assert ("ended-at-logout" in {each.code for each in found}) is refused
