"""Files about runs that the user did not name, in `pylaunch-out` of the working directory. --sync never ships it."""

from pathlib import Path

from pylaunch.errors import UsageError
from pylaunch.store.new_file import HINT

OUTPUT_DIRECTORY = "pylaunch-out"


def output_file(name: str) -> Path:
    """Return the path of `name` in the output directory, which is created. git ignores everything in it.

    Raises UsageError if it cannot be created.
    """
    directory = Path(OUTPUT_DIRECTORY).absolute()
    try:
        directory.mkdir(exist_ok=True)
        ignore = directory / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n")
    except OSError as error:
        raise UsageError(f"{directory}: cannot be written: {error.strerror}", hint=HINT) from None
    return directory / name
