"""Copy the members of an environment's archive that a host needs."""

from __future__ import annotations

import fcntl
import hashlib
import tarfile
import time
from pathlib import Path

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

KEPT_S = 3600
"""Partial archives older than this are removed when the next one is built."""


class ActionModule(ActionBase):
    """Build a partial archive on the controller and send it with `copy`."""

    TRANSFERS_FILES = True
    _VALID_ARGS = frozenset(("archive", "members", "all_members", "dest"))

    def run(self, tmp=None, task_vars=None):
        """Copy a tar archive of `members` of `archive`, which contains `all_members`, to `dest`."""
        super().run(tmp, task_vars)
        arguments = self._task.args
        archive, members = Path(arguments["archive"]), list(arguments["members"])
        try:
            whole = set(members) == set(arguments["all_members"])
            source = archive if whole else part(archive, members)
        except (OSError, tarfile.TarError, KeyError) as error:
            raise AnsibleActionFail(f"{archive}: {error}") from error
        task = self._task.copy()
        task.args = {"src": str(source), "dest": arguments["dest"], "mode": "0600"}
        copy = self._shared_loader_obj.action_loader.get(
            "ansible.legacy.copy",
            task=task,
            connection=self._connection,
            play_context=self._play_context,
            loader=self._loader,
            templar=self._templar,
            shared_loader_obj=self._shared_loader_obj,
        )
        return copy.run(task_vars=task_vars)


def part(archive: Path, members: list[str]) -> Path:
    """Return a tar archive of `members` of `archive`, built once for all hosts that need the same members."""
    directory = archive.parent / "parts"
    directory.mkdir(mode=0o700, exist_ok=True)
    status = archive.stat()
    key = "\n".join([str(status.st_size), str(status.st_mtime_ns), *members])
    made = directory / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.tar"
    with (directory / ".lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            for path in directory.iterdir():
                if path.name != ".lock" and path.stat().st_mtime < time.time() - KEPT_S:
                    path.unlink()
            aside = made.with_suffix(".new")
            with tarfile.open(archive, "r:") as source, tarfile.open(aside, "w:") as target:
                for name in members:
                    member = source.getmember(name)
                    target.addfile(member, source.extractfile(member))
            aside.rename(made)
    return made
