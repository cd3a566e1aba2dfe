import pytest

from pylaunch.transport.process import last_line, program_path


def test_administration_programs_are_found_where_path_has_no_sbin(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("sbin")
    (directory / "nft").touch(mode=0o755)
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.setattr("pylaunch.transport.process.SBIN", (str(directory),))
    assert program_path("nft") == str(directory / "nft")


@pytest.mark.parametrize(
    ("text", "expected"), [("first\nlast\n\n", "last"), ("  only  ", "only"), (" \n\n", "no output"), ("", "no output")]
)
def test_the_last_line_of_an_output_is_not_blank(text: str, expected: str) -> None:
    assert last_line(text) == expected
