from dataclasses import replace

import pytest

from lab.images.recipe import Recipe, apt_settings, codename, repositories
from pylaunch.errors import LabError

TARGETS = """\
http://mirror.example/debian/|bookworm-updates|main
http://mirror.example/debian/|bookworm|main
http://mirror.example/debian/|bookworm|contrib
http://mirror.example/debian/|bookworm|main
http://mirror.example/debian-security/|bookworm-security|main
https://third.example/apt/|stable|main
https://third.example/apt/|bookwormish|main
"""


def test_the_release_itself_comes_first_and_third_parties_are_left_out() -> None:
    assert [each.line for each in repositories("bookworm", TARGETS)] == [
        "deb http://mirror.example/debian/ bookworm main contrib",
        "deb http://mirror.example/debian/ bookworm-updates main",
        "deb http://mirror.example/debian-security/ bookworm-security main",
    ]


@pytest.mark.parametrize("targets", ["", "https://third.example/apt/|stable|main\n"])
def test_a_machine_without_its_own_release_in_apt_gets_a_hint(targets: str) -> None:
    with pytest.raises(LabError, match="no repository for bookworm") as refused:
        repositories("bookworm", targets)
    assert "apt-get update" in str(refused.value.hint)


def test_only_settings_about_fetching_go_into_the_image() -> None:
    dump = """\
APT::Architecture "amd64";
Acquire "";
Acquire::http "";
Acquire::http::Proxy "http://proxy.example:3128";
Acquire::Check-Valid-Until "false";
Acquire::Languages "none";
Acquire::AllowInsecureRepositories "1";
DPkg::Post-Invoke:: "rm -rf /";
"""
    assert apt_settings(dump) == (
        'Acquire::http::Proxy "http://proxy.example:3128";',
        'Acquire::Check-Valid-Until "false";',
        'Acquire::Languages "none";',
    )


@pytest.mark.parametrize("line", ["VERSION_CODENAME=noble", 'VERSION_CODENAME="noble"'])
def test_the_codename_is_read_with_and_without_quotes(line: str) -> None:
    assert codename(f"ID=ubuntu\n{line}\nVERSION_ID=24\n") == "noble"


def test_an_image_is_built_again_when_a_certificate_changes() -> None:
    recipe = Recipe("bookworm", repositories("bookworm", TARGETS), (), (("own.crt", "one"),))
    assert recipe.digest == replace(recipe).digest
    assert recipe.digest != replace(recipe, certificates=(("own.crt", "two"),)).digest
