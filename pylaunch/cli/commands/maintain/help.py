"""`pylaunch help`: the guides and the reference, from this installation."""

import difflib
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from pylaunch.cli import reference
from pylaunch.errors import UsageError
from pylaunch.store.content import content_directory
from pylaunch.terminal import console, hints


def _topics(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(topic) for topic in pages() if topic.startswith(incomplete)]


@click.command()
@click.argument("topic", required=False, metavar="[TOPIC]", shell_complete=_topics)
def command(topic: str | None) -> None:
    """Print the page about TOPIC on stdout; without TOPIC, list all pages.

    The options of a verb are printed by pylaunch VERB --help.
    """
    known = pages()
    if topic is None:
        console.table(("topic", "page"), [(name, title(page)) for name, page in known.items()])
        hints.say("pylaunch help first-cluster    # from no file to a first run")
        return
    if topic not in known:
        near = difflib.get_close_matches(topic, known, n=3)
        meant = f"did you mean {' or '.join(f'pylaunch help {each}' for each in near)}?"
        raise UsageError(f"no page about {topic}", hint=meant if near else "all pages: pylaunch help")
    console.data(reference.filled(known[topic].read_text(encoding="utf-8")))


_FOLDERS = ("docs/guides", "docs/reference", "docs/concepts")
_EXAMPLES = "inventory"


def pages() -> dict[str, Path]:
    """Every page by its topic: the name of its file, without `.md`."""
    root = content_directory()
    found = {path.stem: path for folder in _FOLDERS for path in sorted((root / folder).glob("*.md"))}
    return found | {path.name: path for path in sorted((root / _EXAMPLES).glob("cluster.*"))}


def title(page: Path) -> str:
    """Return the first line of a page, without its heading mark; YAML begins after `---`."""
    with page.open(encoding="utf-8") as text:
        first = text.readline().strip()
        return (text.readline() if first == "---" else first).strip().lstrip("#").strip()
