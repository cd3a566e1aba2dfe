"""TARGET of `start --notify`."""

import pytest

from pylaunch.errors import UsageError
from pylaunch.features.notify.observer import NotifyTarget, read_target

SECRET = "T0/B0/s3cr3t"


def test_a_url_is_shown_as_its_host_or_as_the_variable_that_has_it() -> None:
    url = f"https://hooks.example.com/services/{SECRET}"
    assert read_target(url, {}) == NotifyTarget("https://hooks.example.com/…", url)
    assert read_target("env:HOOK", {"HOOK": url}) == NotifyTarget("env:HOOK", url)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("command:keep", "not a target"),
        ("mailto:me@example.com", "not a target"),
        ("env:UNSET", "the variable is not set"),
        ("env:AGAIN", "not a target"),
        ("train.py", "not a target"),
        ("https:///path", "expected a host"),
        (f"https://user:{SECRET}@example.com/", "no user name"),
        (f"https://example.com/ {SECRET}", "not a target"),
        (f"https://[{SECRET}", "expected a host"),
        (f"env:HAS:{SECRET}", "the variable is not set"),
    ],
)
def test_what_is_no_target_is_refused(value: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as refused:
        read_target(value, {"AGAIN": "env:AGAIN", "HAS": SECRET})
    assert "HAS" in value or SECRET not in refused.value.render()


def test_a_value_that_is_no_target_is_not_repeated_from_a_variable() -> None:
    with pytest.raises(UsageError) as refused:
        read_target("env:HOOK", {"HOOK": SECRET})
    assert SECRET not in refused.value.render()
    assert "--notify env:HOOK: not a target" in refused.value.message
