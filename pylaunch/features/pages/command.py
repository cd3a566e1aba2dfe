"""`pylaunch help`: the guides and the reference, from this installation."""

from pathlib import Path

import click

from pylaunch.errors import UsageError
from pylaunch.features.pages import reference
from pylaunch.store.content import content_directory
from pylaunch.terminal import console


@click.command()
@click.argument("topic", required=False, metavar="[TOPIC]")
def command(topic: str | None) -> None:
    """Print the page about TOPIC on stdout; without TOPIC, the topics. first-cluster leads from no file to a first run.

    The options of a verb are printed by pylaunch VERB --help.
    """
    known = pages()
    if topic is None:
        console.data("\n".join(known))
        return
    if topic not in known:
        raise UsageError(f"no page about {topic}", hint="the topics: pylaunch help")
    console.data(reference.filled(known[topic].read_text(encoding="utf-8")))


def pages() -> dict[str, Path]:
    """Every page by its topic: the name of its file, without `.md`."""
    root = content_directory()
    folders = (root / "docs/guides", root / "docs/reference", root / "docs/concepts")
    found = {path.stem: path for folder in folders for path in sorted(folder.glob("*.md"))}
    return found | {path.name: path for path in sorted((root / "inventory").glob("cluster.*"))}
