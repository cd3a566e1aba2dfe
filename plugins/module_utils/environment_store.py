"""Environments of one root on this host: the links that name them, the runs that use them, and their removal."""

from __future__ import annotations

import fcntl
import os
import shutil

from ansible_collections.pylaunch.cluster.plugins.module_utils.installed import MARKER


class RefusedError(Exception):
    """The environment cannot be installed or removed; the message is for the user."""


def link_of(root, name):
    """Return the path of the link to the environment `name`; "" is the one without a name."""
    return os.path.join(root, "named", name) if name else os.path.join(root, "current")


def entries(directory):
    """Return the names in `directory`; none where there is no such directory."""
    return sorted(os.listdir(directory)) if os.path.isdir(directory) else []


def links(root):
    """Return the links to environments: path -> name of the environment in `envs`."""
    paths = [link_of(root, ""), *(link_of(root, name) for name in entries(os.path.join(root, "named")))]
    return {path: os.path.basename(os.readlink(path)) for path in paths if os.path.islink(path)}


def is_used(path):
    """Return True while a run uses the environment at `path`: its agent shares the lock of the marker."""
    try:
        with open(os.path.join(path, MARKER), "r+b") as marker:  # NFS locks only what may be written.
            fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # Without a marker, it was never complete.
    return False


def prune(root, keep):
    """Remove environments that no link names and no run uses, except the `keep` - 1 that were current last."""
    envs = os.path.join(root, "envs")

    def last_used(name):
        try:
            return os.stat(os.path.join(envs, name, MARKER)).st_mtime
        except OSError:
            return 0.0

    others = sorted(set(entries(envs)) - set(links(root).values()), key=last_used, reverse=True)
    removed = [name for name in others[max(keep - 1, 0) :] if not is_used(os.path.join(envs, name))]
    for name in removed:
        shutil.rmtree(os.path.join(envs, name), ignore_errors=True)
    return removed


def remove(root, name, dry_run):
    """Remove the environment `name`, and all files of the role with the last one. Return True if there was one.

    Raises RefusedError while a run may use it: a run also uses an environment to which the link pointed before.
    """
    link, kept = link_of(root, name), links(root)
    target, envs = kept.pop(link, None), os.path.join(root, "envs")
    if target is None and kept:
        return False
    mine = [each for each in entries(envs) if each not in kept.values() or each == target]
    used = [os.path.join(envs, each) for each in mine if is_used(os.path.join(envs, each))]
    if used:
        raise RefusedError("a run uses the environment %s" % ", ".join(used))
    if kept:
        gone = [link] if target in kept.values() else [link, os.path.join(envs, target)]
    else:
        gone = [os.path.join(root, each) for each in ("current", "named", "envs", "tools", ".lock")]
    gone = [path for path in gone if os.path.lexists(path)]
    for path in gone if not dry_run else ():
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)
    return gone not in ([], [os.path.join(root, ".lock")])
