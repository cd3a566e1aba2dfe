import pytest

from lab.images.recipe import Repository
from lab.images.releases import repositories
from pylaunch.errors import UsageError

BOOKWORM = (
    Repository("http://mirror.example/debian/", "bookworm", ("main", "contrib")),
    Repository("http://mirror.example/debian-security/", "bookworm-security", ("main",)),
)


def test_a_release_of_the_same_distribution_comes_from_the_mirrors_of_this_machine() -> None:
    assert [each.line for each in repositories("trixie", "bookworm", BOOKWORM)] == [
        "deb http://mirror.example/debian/ trixie main contrib",
        "deb http://mirror.example/debian-security/ trixie-security main",
    ]


@pytest.mark.parametrize(("own", "codename"), [("bookworm", "noble"), ("sid", "noble")])
def test_a_release_of_another_distribution_comes_from_where_that_publishes_it(own: str, codename: str) -> None:
    assert [each.line for each in repositories(codename, own, BOOKWORM)] == [
        "deb http://archive.ubuntu.com/ubuntu noble main universe",
        "deb http://archive.ubuntu.com/ubuntu noble-updates main universe",
        "deb http://security.ubuntu.com/ubuntu noble-security main universe",
    ]


def test_a_release_that_the_roles_are_not_for_is_refused_with_those_they_are_for() -> None:
    with pytest.raises(UsageError, match="bookworm, trixie, jammy, noble"):
        repositories("bullseye", "bookworm", BOOKWORM)
