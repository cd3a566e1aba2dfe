"""Files for other launchers, as text and as data."""

from pylaunch.features.render_files.work import RenderedPlan
from pylaunch.terminal import console


def show(made: RenderedPlan) -> None:
    """Print the paths of files that were written, otherwise their content; and how to use them."""
    files = made.content.files
    for number, file in enumerate(files):
        if made.directory is not None:
            console.data(str(made.directory / file.name))
            continue
        if len(files) > 1:
            console.data(f"{'' if number == 0 else chr(10)}==> {file.name} <==")
        for line in file.text.splitlines():
            console.data(line)
    if made.directory is None:
        return
    for remark in made.content.remarks:
        console.say(f"note: {remark}")
    if made.secrets:
        console.say(f"note: left out, because they are secret: {', '.join(made.secrets)}")
    console.say("\nuse: " + "\n     ".join(made.content.commands))


def as_json(made: RenderedPlan) -> dict[str, object]:
    """Return the files as data."""
    return {
        "target": made.target.value,
        "directory": None if made.directory is None else str(made.directory),
        "files": [{"name": file.name, "content": file.text} for file in made.content.files],
        "commands": list(made.content.commands),
        "remarks": list(made.content.remarks),
        "secrets": list(made.secrets),
    }
