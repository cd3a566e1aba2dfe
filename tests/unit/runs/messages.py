"""Messages in the inbox of a fleet without connections."""

from pylaunch.runs.connect.fleet import Fleet


async def arrive(fleet: Fleet, *messages: tuple[str, object]) -> None:
    """Put messages, each with its host, into the inbox of `fleet`."""
    for host, message in messages:
        await fleet.inbox.put(host, message)


async def left(fleet: Fleet) -> list[tuple[str, object]]:
    """Return the messages that are in the inbox of `fleet`."""
    inbox = fleet.inbox
    return [await inbox.hear() for _ in range(len(inbox._first) + inbox._arrived.qsize())]
