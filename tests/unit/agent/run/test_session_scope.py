import pytest

from pylaunch.agent.run.ranks.session_scope import is_session, kills, unit_words


@pytest.mark.parametrize(
    ("cgroups", "answer"),
    [
        ("0::/user.slice/user-1000.slice/session-7.scope\n", True),
        ("1:name=systemd:/user.slice/user-0.slice/session-c2.scope\n0::/\n", True),
        ("0::/system.slice/pylaunch-7f3a-12.scope\n", False),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-1.scope\n", False),
        ("", False),
    ],
)
def test_a_login_session_is_recognised_in_both_kinds_of_hierarchy(cgroups: str, answer: bool) -> None:
    assert is_session(cgroups) is answer


def test_the_scope_is_named_by_run_and_process() -> None:
    words = unit_words("7f3a", 12)
    assert words[1] == "pylaunch-7f3a-12.scope"
    assert words[words.index("au") + 1 : words.index("au") + 3] == ["1", "12"]


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
    assert kills(properties, "ml") is answer
