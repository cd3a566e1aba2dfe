"""Playbooks and roles are found in a checkout and in an installed wheel alike."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import yaml

from pylaunch.store import content

CHECKOUT = Path(__file__).parents[2]


def test_a_checkout_uses_its_own_playbooks_and_roles() -> None:
    assert content.content_directory() == CHECKOUT
    assert content.playbook("site").is_file()


def built(kind: str, checkout: Path, directory: Path) -> Path:
    """The wheel or the sdist that hatchling makes of `checkout`."""
    build = [sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory", str(directory)]
    subprocess.run(build, cwd=checkout, check=True, stdout=subprocess.DEVNULL)
    (made,) = directory.iterdir()
    return made


def test_a_wheel_carries_them_inside_the_package(tmp_path: Path) -> None:
    with zipfile.ZipFile(built("wheel", CHECKOUT, tmp_path / "dist")) as archive:
        archive.extractall(tmp_path / "site")
    asked = "from pylaunch.store import content as c; print(c.playbook('site')); print(c.roles_directory())"
    answer = subprocess.run(
        [sys.executable, "-S", "-c", asked], cwd=tmp_path / "site", check=True, stdout=subprocess.PIPE
    )
    playbook, roles = (Path(line) for line in answer.stdout.decode().splitlines())
    inside = tmp_path / "site" / "pylaunch" / "content"
    assert playbook == inside / "playbooks" / "site.yml"
    assert playbook.is_file()
    carried = ("roles", "verify", "inventory", "docs/guides", "docs/reference", "docs/concepts")
    in_checkout = {
        path.relative_to(CHECKOUT) for name in carried for path in (CHECKOUT / name).rglob("*") if path.is_file()
    }
    in_wheel = {path.relative_to(inside) for name in carried for path in (inside / name).rglob("*") if path.is_file()}
    assert roles == inside / "roles"
    assert {path for path in in_checkout if "__pycache__" not in path.parts} == in_wheel


def test_code_that_roles_share_with_the_probe_is_the_same_in_a_wheel_that_was_made_from_the_sdist(
    tmp_path: Path,
) -> None:
    with tarfile.open(built("sdist", CHECKOUT, tmp_path / "sdist")) as archive:
        # Debian 12's Python, 3.11.2, has no filters yet; 3.14 uses this one by default.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(tmp_path / "unpacked")
    (checkout,) = (tmp_path / "unpacked").iterdir()
    shared = {
        path.relative_to(CHECKOUT): path.resolve().relative_to(CHECKOUT)
        for path in (CHECKOUT / "roles").glob("*/module_utils/*.py")
        if path.is_symlink()
    }
    assert shared.keys() >= {Path("roles/python_env/module_utils/pylaunch_installed_library.py")}
    with zipfile.ZipFile(built("wheel", checkout, tmp_path / "wheel")) as wheel:
        for linked, source in shared.items():
            assert (
                wheel.read(f"pylaunch/content/{linked}") == (CHECKOUT / source).read_bytes() == wheel.read(str(source))
            )


def test_every_role_that_is_applied_can_be_taken_back() -> None:
    applied = {role["role"] for play in load(content.playbook("site")) for role in play.get("roles", ())}
    undone = [
        task["ansible.builtin.import_role"]["name"]
        for play in load(content.playbook("reset"))
        for task in play["tasks"]
        if "ansible.builtin.import_role" in task
    ]
    assert set(undone) == applied


def load(playbook: Path) -> list[dict[str, Any]]:
    plays: list[dict[str, Any]] = yaml.safe_load(playbook.read_text())
    return plays
