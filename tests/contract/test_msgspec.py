"""JSON as typed values from many threads: a start reads the answers of all its nodes at the same moment."""

import subprocess
import sys

# Eight threads meet before the first use of each type, so that without a lock they learn it together: msgspec alone
# crashes in each run of this program.
PROGRAM = """
import enum, sys, threading
import msgspec
from pylaunch.model.text.typed_json import converted, decoded

def ask(kind):
    gate.wait()
    assert decoded(b'{"state": "a3", "text": "x"}', kind).text == "x"
    assert converted({"state": "a3", "text": "x"}, kind).text == "x"

sys.setswitchinterval(1e-6)
for number in range(150):
    state = enum.Enum(f"State{number}", {f"A{value}": f"a{value}" for value in range(6)})
    kind = msgspec.defstruct(f"Answer{number}", [("state", state), ("text", str)])
    gate = threading.Barrier(8)
    threads = [threading.Thread(target=ask, args=(kind,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print("answered")
"""


def test_threads_that_meet_a_type_at_the_same_moment_each_get_their_answer() -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "answered\n", "")
