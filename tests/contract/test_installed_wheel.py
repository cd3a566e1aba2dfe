"""A wheel that uv installs as a tool, with its declared dependencies alone, runs the first commands of README.md."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.test_ansible_content import CHECKOUT, built


class InstalledTool:
    """pylaunch in an environment of its own, typed in a directory outside the checkout."""

    def __init__(self, root: Path) -> None:
        wheel = self.wheel = built("wheel", CHECKOUT, root / "dist")
        self._root, uv = root, Path(sys.executable).with_name("uv")
        self.environment = root / "tools/pylaunch"
        own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
        directories = {"UV_TOOL_DIR": root / "tools", "UV_TOOL_BIN_DIR": root / "bin", "XDG_STATE_HOME": root / "state"}
        self._variables = {**own, **{name: str(path) for name, path in directories.items()}}
        install = [str(uv), "tool", "install", "--quiet", "--python", sys.executable, str(wheel)]
        subprocess.run(install, cwd=root, env=self._variables, check=True)

    def prints(self, *words: str) -> str:
        """Type a command and return its stdout; it must end with 0."""
        return self.types(str(self._root / "bin/pylaunch"), *words)

    def types(self, *words: str) -> str:
        """Type a command line and return its stdout; it must end with 0."""
        done = subprocess.run(words, cwd=self._root, env=self._variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> InstalledTool:
    return InstalledTool(tmp_path_factory.mktemp("installed"))


def test_an_installed_wheel_runs_from_its_own_files(installed: InstalledTool) -> None:
    assert json.loads(installed.prints("ps", "--json"))["exit_code"] == 0
    (package,) = installed.environment.glob("lib/python3*/site-packages/pylaunch")
    pages = CHECKOUT / "docs"
    assert installed.prints("help", "agents") == (pages / "guides/agents.md").read_text()
    assert (package / "AGENTS.md").read_text() == (pages / "guides/agents.md").read_text()
    assert "role-time_sync" in installed.prints("help")


def test_an_installed_wheel_needs_no_framework(installed: InstalledTool) -> None:
    names = {path.name.split("-")[0].lower() for path in installed.environment.glob("lib/*/site-packages/*.dist-info")}
    assert "ansible_core" in names
    assert names.isdisjoint({"torch", "jax", "pytest", "sphinx"})


def test_uvx_runs_the_wheel_without_an_installation(installed: InstalledTool) -> None:
    uvx = (str(Path(sys.executable).with_name("uvx")), "--python", sys.executable, "--from", str(installed.wheel))
    assert json.loads(installed.types(*uvx, "pylaunch", "ps", "--json"))["exit_code"] == 0


def test_the_demo_runs_from_an_installed_wheel(installed: InstalledTool) -> None:
    assert installed.prints("demo", "--help")
    installed.prints("demo")
