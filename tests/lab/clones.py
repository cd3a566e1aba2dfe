"""Copies of a provisioned node, for stories that need several of them and not how they became so."""

from lab.lab import Lab
from pylaunch.inventory import load_cluster
from pylaunch.transport import process
from pylaunch.transport.connections import disconnect


def copy_disk(lab: Lab, source: str, target: str) -> None:
    """Give `target` what `source` has on its disk, but for its own names, address and keys. Both are booted again.

    The environments of python_env are hard links: nobody may change their files in place.
    """
    upper = lab[target].paths.upper
    with lab[source].kill(), lab[target].kill():
        if (environments := lab[source].paths.upper / "opt").is_dir():
            process.run(("cp", "--archive", "--link", str(environments), str(upper))).checked()
        process.run(("cp", "--archive", "--no-clobber", f"{lab[source].paths.upper}/.", str(upper))).checked()
    disconnect(load_cluster(lab.inventory))  # Connections of before the boot are dead, and nobody tells ssh.
