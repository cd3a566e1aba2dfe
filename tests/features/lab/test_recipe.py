from lab.images.recipe import apt_settings, repositories

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
