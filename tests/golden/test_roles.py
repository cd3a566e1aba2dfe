"""Each role has a page with its variables, changes and reset. To write them: UPDATE_GOLDEN=1 pytest tests/golden."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.golden.files import golden
from tests.hinted_commands import commands_in, must_be_accepted

ROOT = Path(__file__).parents[2]
PATH = re.compile(r"(?<![\w/.…}])/(?:etc|opt|usr/local)(?:/[\w.…-]+)*")
FILES = "Files and directories that its variables name (its README has services and what it only verifies):"
ROLES = sorted(path.name for path in (ROOT / "roles").iterdir())


def loaded(role: str, file: str) -> Any:
    return yaml.safe_load((ROOT / "roles" / role / file).read_text())


def strings(value: object) -> Iterator[str]:
    """All strings of a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from strings(each)


def changed_paths(role: str) -> list[str]:
    """Paths on the host that the variables of the role name, the internal ones included."""
    platform = [yaml.safe_load(path.read_text()) for path in (ROOT / "roles" / role).glob("vars/*.yml")]
    texts = (
        re.sub(r"{{[^{}]*}}(?=[^/]*/)", "…", each) for each in strings([loaded(role, "defaults/main.yml"), platform])
    )
    return sorted({path for text in texts for path in PATH.findall(text)})


def packages(role: str) -> str:
    """Sentence about packages that the role installs."""
    desired = loaded(role, "defaults/main.yml")[f"{role}_desired"]
    named = desired.get("packages", []) if isinstance(desired, dict) else []
    return f"Installs {', '.join(f'`{name}`' for name in named)} where it is missing.\n\n" if named else ""


def shown(value: object) -> str:
    """Cell of a table that shows a default."""
    if value is None:
        return ""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if len(text) > 60 or "{{" in text:
        return "computed" if "{{" in text else f"`{text[:50]}`…"
    return f"`{text}`" if text else '`""`'


def variables(role: str) -> str:
    """Rows of the table of variables."""
    defaults = loaded(role, "defaults/main.yml")
    options = loaded(role, "meta/argument_specs.yml")["argument_specs"]["main"]["options"]
    rows = (
        (name, each["type"], shown(defaults.get(name)), re.sub(r"C\((.*?)\)", r"`\1`", each["description"]))
        for name, each in options.items()
    )
    return "".join(f"| `{name}` | {kind} | {default} | {about} |\n" for name, kind, default, about in rows)


def undone(role: str) -> str:
    """Lines of a list: tasks of the reset."""
    tasks = loaded(role, "tasks/reset.yml")
    return "".join(f"- {task['name']}\n" for task in tasks if not task["name"].startswith(("Find", "Check", "Flush")))


def page(role: str) -> str:
    """The page as it should be."""
    about = loaded(role, "meta/argument_specs.yml")["argument_specs"]["main"]["short_description"]
    named = [f"the path in `{name}`" for name in loaded(role, "defaults/main.yml") if name.endswith("_path")]
    paths = "".join(f"- {path}\n" for path in [*(f"`{path}`" for path in changed_paths(role)), *named])
    every = " --all" if role == "python_env" else ""
    return f"""\
# Role {role}

{about}. [How it works](../../roles/{role}/README.md). This page is
generated from the role's argument specification, defaults and reset.

## What it changes

`pylaunch provision -i cluster.ini --roles {role} --plan --diff` shows it for your hosts and changes nothing;
without `--plan --diff` it is done.

{packages(role)}{FILES if paths else "It writes no file."}

{paths}
## Undo

`pylaunch provision -i cluster.ini --roles {role} --reset{every}` asks, then does this
([what a reset keeps](../guides/provision.md#undo)):

{undone(role)}
## Variables

Set them in the [inventory](inventory.md), in `group_vars` or in `host_vars`. A misspelt name and a value of another
type are refused before any host is asked.

| variable | type | default | meaning |
|---|---|---|---|
{variables(role)}""".replace("\n\n\n", "\n\n")


@pytest.mark.parametrize("role", ROLES)
def test_the_page_of_a_role_has_what_the_role_declares(role: str) -> None:
    file = ROOT / f"docs/reference/role-{role}.md"
    assert page(role) == golden(file, page(role))
    for words in commands_in("; ".join(re.findall(r"`(pylaunch provision [^`]+)`", page(role)))):
        must_be_accepted(words)


def test_every_page_of_a_role_has_its_role() -> None:
    assert sorted(path.stem for path in (ROOT / "docs/reference").glob("role-*.md")) == [
        f"role-{name}" for name in ROLES
    ]
