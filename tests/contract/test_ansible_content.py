"""Playbooks and roles are found in a checkout and in an installed wheel alike."""

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import yaml

from pylaunch import __version__
from pylaunch.store import content
from pylaunch.transport.collection import COLLECTION, assemble

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
    carried = ("meta", "plugins", "roles", "verify", "inventory", "docs/guides", "docs/reference", "docs/concepts")
    in_checkout = {
        path.relative_to(CHECKOUT) for name in carried for path in (CHECKOUT / name).rglob("*") if path.is_file()
    }
    in_wheel = {path.relative_to(inside) for name in carried for path in (inside / name).rglob("*") if path.is_file()}
    assert roles == inside / "roles"
    assert {path for path in in_checkout if "__pycache__" not in path.parts} == in_wheel


def test_the_collection_is_whole_in_a_wheel_that_was_made_from_the_sdist(tmp_path: Path) -> None:
    with tarfile.open(built("sdist", CHECKOUT, tmp_path / "sdist")) as archive:
        # Debian 12's Python, 3.11.2, has no filters yet; 3.14 uses this one by default.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(tmp_path / "unpacked")
    (checkout,) = (tmp_path / "unpacked").iterdir()
    with zipfile.ZipFile(built("wheel", checkout, tmp_path / "wheel")) as wheel:
        wheel.extractall(tmp_path / "site")
    made = assemble(tmp_path / "site/pylaunch/content", tmp_path / "made")
    whole = assemble(CHECKOUT, tmp_path / "whole")
    contents = [{str(each.relative_to(at)) for each in at.rglob("*") if each.is_file()} for at in (made, whole)]
    assert contents[1] - contents[0] == {"CHANGELOG.md"}
    assert "plugins/module_utils/managed.py" in contents[0]


def test_ansible_builds_the_collection_and_documents_its_modules_and_roles(tmp_path: Path) -> None:
    tools = Path(sys.executable).parent
    own = {**os.environ, "HOME": str(tmp_path), "ANSIBLE_HOME": str(tmp_path / "ansible")}

    def types(*words: str) -> str:
        done = subprocess.run([tools / words[0], *words[1:]], env=own, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    types("ansible-galaxy", "collection", "build", str(assemble(CHECKOUT, tmp_path)))
    (archive,) = tmp_path.glob("pylaunch-cluster-*.tar.gz")
    assert archive.name == f"pylaunch-cluster-{__version__}.tar.gz", "its version is that of pylaunch"
    types("ansible-galaxy", "collection", "install", "--offline", archive.name)
    modules = [path.stem for path in (CHECKOUT / "plugins/modules").glob("*.py")]
    documented = json.loads(types("ansible-doc", "--json", *(f"{COLLECTION}.{name}" for name in modules)))
    for name, page in documented.items():
        assert all((page["doc"]["description"], page["examples"], page["return"])), name
    roles = json.loads(types("ansible-doc", "--type", "role", "--json", "--list", COLLECTION))
    assert set(roles) == {f"{COLLECTION}.{each.name}" for each in (CHECKOUT / "roles").iterdir() if each.is_dir()}


def test_every_role_that_is_applied_can_be_taken_back() -> None:
    applied = {role["role"] for play in load(content.playbook("site")) for role in play.get("roles", ())}
    undone = [
        task["ansible.builtin.import_role"]["name"]
        for play in load(content.playbook("reset"))
        for task in play["tasks"]
        if "ansible.builtin.import_role" in task
    ]
    assert set(undone) == applied


def test_the_specifications_know_hosts_without_an_inventory_file() -> None:
    words = (sys.executable, "-m", "pytest", "--quiet", str(content.specifications_directory()))
    found = subprocess.run(
        (*words, "--inventory", "n1,n2", "--collect-only"), capture_output=True, text=True, timeout=60, check=False
    )
    assert found.returncode == 0, found.stdout
    assert "n2" in found.stdout


def load(playbook: Path) -> list[dict[str, Any]]:
    plays: list[dict[str, Any]] = yaml.safe_load(playbook.read_text())
    return plays
