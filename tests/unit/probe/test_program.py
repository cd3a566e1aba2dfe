import binascii
import json
import re
import zlib

import pytest

from pylaunch.agent.piped import cleanup, mesh
from pylaunch.agent.probe.readers.devices import gpu
from pylaunch.agent.probe.readers.hosts import host, occupants
from pylaunch.agent.probe.registry import Reader
from pylaunch.probe import program as builder
from pylaunch.probe.program import BEGUN, asking, needed, probe, program


def test_a_module_of_the_agent_travels_after_its_imports_and_with_nothing_else() -> None:
    assert needed(["agent.probe.readers.devices.gpu"]) == (
        "agent.probe.registry",
        "agent.shared.text",
        "agent.shared.cgroups",
        "agent.shared.programs",
        "agent.shared.installed",
        "agent.shared.essentials",
        "base.kernel_log",
        "protocol.readings.devices",
        "agent.probe.readers.devices.gpu",
    )
    carried = needed(["agent.probe.readers.hosts.occupants", "agent.piped.cleanup"])
    assert len(carried) == len(set(carried))
    assert carried.index("agent.shared.sockets.ports") > carried.index("agent.shared.processes")
    assert not {"agent.probe.facts", "agent.probe.readers.devices.gpu"} & set(carried)


def carried_by(script: bytes) -> dict[str, str]:
    """Return the modules that a script carries, with their sources."""
    (text,) = re.findall(rb"a2b_base64\(b'(\S+)'\)", script)
    return dict(json.loads(zlib.decompress(binascii.a2b_base64(text))))


def test_a_host_is_sent_only_the_modules_that_its_questions_need() -> None:
    few = carried_by(probe(host.limits.ask(None)))
    more = carried_by(probe({**occupants.occupants.ask({"ports": []}), **host.limits.ask(None)}))
    assert "agent.probe.readers.hosts.occupants" in more
    assert "agent.probe.readers.hosts.occupants" not in few


@pytest.mark.parametrize(
    "script",
    [
        program(cleanup.of_run, "/root", "7f3a", "n1", began=7.0, grace_s=1.5),
        program(mesh.main, BEGUN),
        asking(gpu.management.ask(None), cleanup.of_dead_runs, "/root", [(5, 6)], dry_run=True, questions={}),
        probe({**occupants.occupants.ask({"ports": [29500]}), **host.filesystem.ask({"path": "/x"}, "a 'label'")}),
    ],
    ids=["arguments", "begun", "readers", "probe"],
)
def test_a_script_is_python_that_calls_its_entry_last(script: bytes) -> None:
    compile(script, "script", "exec")
    assert script.decode().splitlines()[-1].startswith('sys.modules["pylaunch.agent.')


def test_only_functions_for_hosts_are_sent() -> None:
    with pytest.raises(ValueError, match="is not a function of a module for hosts"):
        program(builder.probe, {})
    with pytest.raises(ValueError, match="is not a function of a module for hosts"):
        program(Reader.ask, host.memory, None)
