"""The protocol between controller and agent: `messages` documents it."""

from pylaunch.protocol.examination import *  # noqa: F403 -- the modules are one namespace
from pylaunch.protocol.fields import WireError as WireError
from pylaunch.protocol.messages import *  # noqa: F403 -- the modules are one namespace
from pylaunch.protocol.node_evidence import *  # noqa: F403 -- the modules are one namespace
from pylaunch.protocol.node_task import *  # noqa: F403 -- the modules are one namespace
from pylaunch.protocol.progress import *  # noqa: F403 -- the modules are one namespace
