"""`pylaunch version`: the versions of pylaunch and its tools."""

import click

from pylaunch.terminal import console, document, options
from pylaunch.terminal.version import controller_versions


@click.command()
@options.as_json
def command(*, as_json: bool) -> None:
    """Print the versions of pylaunch, Python, OpenSSH and packages on this machine, and the directories of its files.

    Add the output to a bug report. No host is contacted. pylaunch --version prints the version alone.
    """
    found = controller_versions()
    if as_json:
        document.show(found)
        return
    rows = {
        "pylaunch": found["pylaunch"],
        "Python": f"{found['python']} ({found['executable']})",
        "OpenSSH": found["openssh"],
    }
    rows |= {**found["packages"], "system": found["system"], "records of runs": found["state"], "cache": found["cache"]}
    width = max(map(len, rows))
    console.data("\n".join(f"{name:{width}}  {value or 'not found'}" for name, value in rows.items()))
