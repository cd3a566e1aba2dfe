import pytest

from pylaunch.errors import UsageError
from pylaunch.terminal.flags.environment_file import read_environment

OURS = {"HF_HOME": "/data/hf"}


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=1", "1"),
        ("  export A = 1".replace(" = ", "="), "1"),
        ("A=", ""),
        ("A=two words", "two words"),
        ("A=  blanks around  ", "blanks around"),
        ("A=value # the reason", "value"),
        ("A=# nothing", ""),
        ("A=not#acomment", "not#acomment"),
        ("A='  $HOME # \"as it is\" '", '  $HOME # "as it is" '),
        ("A='x' # why", "x"),
        (r'A="line\nline\ttab \"quoted\" \\"', 'line\nline\ttab "quoted" \\'),
        ("A=$HOME", "$HOME"),
        ("A=a=b", "a=b"),
        ("A=1\r", "1"),
    ],
)
def test_a_line_sets_what_it_says(line: str, value: str) -> None:
    assert read_environment(f"# first\n\n{line}\n", "job.env", OURS) == {"A": value}


def test_a_name_alone_takes_our_value() -> None:
    assert read_environment("HF_HOME\n", "job.env", OURS) == {"HF_HOME": "/data/hf"}


def test_all_wrong_lines_are_reported_at_once_with_their_place_and_no_value() -> None:
    text = 'A=1\n1B=hunter2\nhunter2 is it\nMISSING\nA=hunter2\nC=\'hunter2\nD="hunter2\\q"\nE=hunter2\0\n'
    with pytest.raises(UsageError) as error:
        read_environment(text, "job.env", OURS)
    assert error.value.evidence == (
        "job.env:2: expected NAME=VALUE, and a name is letters, digits and _",
        "job.env:3: expected NAME=VALUE, and a name is letters, digits and _",
        "job.env:4: MISSING stands alone, and pylaunch itself has no such variable",
        "job.env:5: A is set a second time, first in line 1",
        "job.env:6: the value of C begins with ' and does not end with it",
        'job.env:7: the value of D contains \\q; known are \\n, \\t, \\" and \\\\',
        "job.env:8: the value of E contains a NUL",
    )
    assert "hunter2" not in error.value.render()
