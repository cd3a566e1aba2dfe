"""Messages of a fleet without connections."""

from pylaunch.runs.connect.bounds import Interrupted
from pylaunch.runs.connect.fleet import Fleet


def arrive(fleet: Fleet, *messages: tuple[str, object]) -> None:
    """Let `fleet` receive messages, each with its host; interrupts have none."""
    for host, message in messages:
        if isinstance(message, Interrupted):
            fleet.interrupt(message.reason)
        else:
            fleet.receive(host, message)


async def left(fleet: Fleet) -> list[tuple[str, object]]:
    """Return the messages that wait for the subscriber of `fleet`."""
    return [await fleet.inbox.hear() for _ in range(len(fleet.inbox._messages))]
