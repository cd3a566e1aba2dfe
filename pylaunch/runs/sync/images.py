"""Send the image of a container to the nodes that lack it, which pass it on to each other."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TypeAlias

from pylaunch.agent.piped import images
from pylaunch.base.dataclass import replace
from pylaunch.broadcast.payload import read_payload
from pylaunch.broadcast.progress import lines_of_progress
from pylaunch.broadcast.spread import spread
from pylaunch.checks import suite
from pylaunch.checks.hosts import containers
from pylaunch.checks.survey import Wanted
from pylaunch.checks.wanted import ANY_FILE
from pylaunch.errors import ClusterNotReadyError, UsageError
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.hostset import fold
from pylaunch.model.job import Container
from pylaunch.model.text.argv import quoted
from pylaunch.model.text.sanitise import visible_line
from pylaunch.model.text.size import shown_size
from pylaunch.probe.ask import Answered, Asking, ask, parted
from pylaunch.probe.program import program
from pylaunch.runs.sync.exchange import SOURCES
from pylaunch.store.image_cache import images_directory, mark_used
from pylaunch.transport.process import Together

AGAIN = "start again when the reason is gone: pieces that have arrived are kept"
NO_ROOM = "{du}/* there: images can be removed; another disk, in the inventory: pylaunch_node_root=DIR"

Failed: TypeAlias = dict[str, tuple[str, str]]
"""Reason and hint by host."""


class ImageTransfers:
    """Transfers of images for runs of this process, of which the first with an image sends it to the hosts of all."""

    def __init__(self) -> None:
        self._hosts: dict[str, Cluster] = {}
        """By image, those of all runs."""

        self._sent: dict[str, Future[None]] = {}

    def expect(self, container: Container | None, hosts: Sequence[Host], cluster: Cluster) -> None:
        """Let the first run with the image of `container` send it to `hosts` of `cluster`, too."""
        if container is not None:
            found = self._hosts.get(container.image, cluster)
            further = tuple(host for host in hosts if host.name not in found.names)
            self._hosts[container.image] = replace(found, hosts=(*found.hosts, *further))

    async def send(self, container: Container, cluster: Cluster, say: Callable[[str], None]) -> Failed:
        """Send the file of `container` to each host of `cluster` that lacks it; return the hosts that do not have it
        then. Raises ClusterNotReadyError where this machine has the file no longer."""
        mine: Future[None] = Future()
        mine.set_running_or_notify_cancel()  # A run that is interrupted while it waits would cancel it.
        first = self._sent.setdefault(container.image, mine)
        if first is not mine:
            await asyncio.wrap_future(first)
            return await _send(container, cluster, say, cluster)
        try:
            return await _send(container, cluster, say, self._hosts.get(container.image, cluster))
        finally:
            mine.set_result(None)


async def _send(container: Container, cluster: Cluster, say: Callable[[str], None], everywhere: Cluster) -> Failed:
    """Send the file to the hosts of `cluster`, and to those of `everywhere` that answer."""
    file, (store, _, path) = Path(container.file), container.image.partition("/")
    is_made = file.is_relative_to(images_directory())
    if is_made:
        await asyncio.to_thread(mark_used, file)
    asking = Together()
    try:
        programs = {host.name: program(images.has, host.node_root, path) for host in everywhere.hosts}
        answers, _ = parted(await asyncio.to_thread(ask, everywhere, programs, how=Asking(together=asking)), everywhere)
        having = [name for name, answer in answers.items() if answer.get("has") is True]
        to_ask = everywhere.only([name for name in answers if name not in having])
        unfit = await asyncio.to_thread(_without_engine, to_ask, asking) if to_ask.hosts else {}
    finally:
        asking.end()
    unfit |= _without_room({name: answers[name] for name in to_ask.names}, file)
    if failed := {name: why for name, why in unfit.items() if name in cluster.names}:
        return failed
    if unfit:  # Another run is refused for them: its other hosts need no image.
        everywhere, having = cluster, [name for name in having if name in cluster.names]
    able = [name for name in everywhere.names if name in answers or name in cluster.names]
    if not (lacking := [name for name in able if name not in having]):
        return {}
    say(f"sending the image to {fold(lacking)}")
    sources = having[:SOURCES]
    try:
        payload = await asyncio.to_thread(read_payload, [file], f"{store}/{path}")
        if payload.files[0].digest != path.split("/")[0]:
            if is_made:
                file.unlink()  # The next start makes it again. A file of the user is theirs.
            raise UsageError(f"{file} was changed")
        received = replace(payload.files[0], mode=0o444)  # The same everywhere: two controllers send the same files.
        payload = replace(payload, files=(received,))
        progress = lines_of_progress(lambda line: say(f"image: {line}"))
        result = await spread(everywhere.only((*lacking, *sources)), payload, sources=sources, on_progress=progress)
    except UsageError as error:
        hint = "start again with the same --container"
        raise ClusterNotReadyError(f"the image cannot be sent: {error.message}", hint=hint) from None
    for remark in result.remarks:
        say(remark)
    failed = {
        name: (found.error, found.hint or AGAIN)
        for name, found in result.hosts.items()
        if name in lacking and found.error is not None
    }
    if done := {name: result.hosts[name].seconds for name in lacking if name not in failed}:
        sent = shown_size(sum(received.sent for received in result.hosts.values()))
        say(f"{fold(done)}: received the image after {max(done.values()):.1f} s; this machine sent {sent}")
    return {name: why for name, why in failed.items() if name in cluster.names}


def _without_engine(cluster: Cluster, asking: Together) -> Failed:
    """Return the hosts that could not mount an image, which their agents would find when they have it."""
    survey = suite.take(cluster, Wanted(container=ANY_FILE), containers.CHECKS, how=Asking(together=asking))
    findings = [finding for check in containers.CHECKS for finding in check.judge(survey)]
    return {name: (each.text, each.fix.replace("{hosts}", name)) for each in findings for name in each.hosts}


def _without_room(answers: Mapping[str, Answered], file: Path) -> Failed:
    """Return the hosts on which `file` does not fit, by their own answers."""
    size = file.stat().st_size if file.exists() else 0  # Reading it has the reason.
    found: Failed = {}
    for name, answer in answers.items():
        free, store = answer.get("free"), visible_line(str(answer.get("store")))[:300]
        if isinstance(free, int) and free < size:
            why = f"{shown_size(size)} are needed in {store} and {shown_size(free)} are free"
            found[name] = why, NO_ROOM.format(du=quoted(("du", "-sh", store)))
    return found
