"""`check --fix`: the repairs to run, and their tasks."""

from collections.abc import Sequence

from pylaunch.cli.views.tasks import TaskLines
from pylaunch.model.hostset import fold
from pylaunch.provision.repair import Repair, RepairEnded, RepairEvent, RepairUnneeded
from pylaunch.terminal import console


def show_plan(plan: Sequence[Repair]) -> None:
    """Print the roles to run, their hosts, and the checks that name them."""
    for repair in plan:
        console.say(f"{fold(repair.hosts)}: {', '.join(repair.roles)} (for {', '.join(repair.checks)})")


class RepairView:
    """Prints the events of repairs."""

    def __init__(self) -> None:
        self._tasks = TaskLines()

    def show(self, event: RepairEvent) -> None:
        """Print `event`."""
        match event:
            case RepairUnneeded(repair):
                hosts, roles = fold(repair.hosts), ", ".join(repair.roles)
                console.say(f"{hosts}: {roles} has nothing to change: see the finding's fix")
            case RepairEnded():
                self._tasks.end()
            case _:
                self._tasks.add(event)
