"""Output on a terminal during a run and afterwards: no control sequences from ranks, and no board that stays."""

import contextlib
import fcntl
import os
import pty
import re
import shlex
import signal
import struct
import sys
import termios
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from pylaunch.agent.logs import log_files
from pylaunch.base.layout import RunDirectory
from tests.starts.cluster import Directory, DirectoryCluster
from tests.waiting import wait_until

OURS = re.compile(r"\r(?=\x1b\[(?:2K|1A))|\x1b\[(?:\?25[hl]|1A|2K|[0-9;]*m)")
"""Control sequences of pylaunch itself: the cursor, the lines of the board, colours."""

CTRL_Z = b"\x1a"
SHOW_CURSOR, HIDE_CURSOR = "\x1b[?25h", "\x1b[?25l"

HOSTILE = r"A\033]0;owned\007B\033[2J\302\2332JC\016\000\342\200\256D\033]8;;http://x\033\\E\033[31mred\n\033]0;unterminated\nlast\n"


@dataclass
class OnTerminal:
    """`pylaunch` with stdin, stdout and stderr on a terminal."""

    pid: int
    terminal: int
    _text: bytes = b""
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def __post_init__(self) -> None:
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # EIO: the last one that had the terminal open is gone.
            while chunk := os.read(self.terminal, 1 << 16):
                with self._changed:
                    self._text += chunk
                    self._changed.notify_all()

    def written(self) -> str:
        """All of it until now."""
        with self._changed:
            return self._text.decode(errors="surrogateescape").replace("\r\n", "\n")

    def shows(self, pattern: str, since: int = 0) -> int:
        """Wait until `pattern` is found after the first `since` characters; where it ends."""
        with self._changed:
            found = self._changed.wait_for(lambda: re.compile(pattern, re.S).search(self.written(), since), 60.0)
            assert found, f"{pattern!r} not in {self.written()[since:]!r}"
            return found.end()

    def resize(self, columns: int) -> None:
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def press(self, key: bytes) -> None:
        os.write(self.terminal, key)

    def types(self, line: str) -> None:
        self.press(line.encode() + b"\n")

    def ends(self) -> str:
        """All that was written, at the end, which must come."""
        try:
            wait_until(lambda: os.waitpid(self.pid, os.WNOHANG)[0] == self.pid, "the end of the process")
        except AssertionError:
            os.kill(self.pid, signal.SIGKILL)
            raise AssertionError(f"it does not end: {self.written()!r}") from None
        self._reader.join(60.0)
        os.close(self.terminal)
        return self.written()


def on_terminal(cluster: DirectoryCluster, *words: str) -> OnTerminal:
    """`pylaunch` with these words, in a session of its own."""
    return _on_terminal(cluster, sys.executable, "-m", "pylaunch", *words)


def _on_terminal(cluster: DirectoryCluster, *argv: str) -> OnTerminal:
    pid, terminal = pty.fork()
    if pid == 0:
        try:
            fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
            given = {**os.environ, "XDG_STATE_HOME": str(cluster.state), "TERM": "xterm-256color", "PS1": "$ "}
            os.execve(argv[0], argv, given)
        finally:
            os._exit(127)
    return OnTerminal(pid, terminal)


def started(cluster: DirectoryCluster, *words: str) -> tuple[str, ...]:
    return ("start", "-i", str(cluster.inventory), "--framework", "command", "--workdir", "/", *words)


def obeyed(text: str) -> str:
    """Control sequences in `text` that are not pylaunch's own."""
    return "".join(re.findall(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\udc80-\udcff]", OURS.sub("", text)))


def test_no_view_passes_on_what_a_rank_wrote_to_own_the_terminal(
    directories: Callable[..., DirectoryCluster],
) -> None:
    cluster = directories("n1")
    script = 'printf "$1"; printf "$1" >&2; exit 3'
    hostile = ("--", "sh", "-c", script, "arg\x1b]0;owned\x07", HOSTILE)  # Listings shorten what is after it.
    live = on_terminal(cluster, *started(cluster, *hostile)).ends()
    (run,) = cluster.outcomes()
    views = {
        "start": live,
        "status": on_terminal(cluster, "status", run).ends(),
        "ps": on_terminal(cluster, "ps", "--all").ends(),
        "attach": on_terminal(cluster, "attach", run).ends(),
        "logs": on_terminal(cluster, "logs", run).ends(),
    }
    assert {name: obeyed(text) for name, text in views.items()} == dict.fromkeys(views, "")
    assert "n1:0 | ABC" in live.replace("\x1b[0m", "")
    for name in ("start", "logs"):
        assert "\x1b[31mred\x1b[0m\n" in views[name], f"{name} keeps colours, and ends them with their line"
        assert "last\n" in views[name]
    assert "  last\n" in views["status"], "the rank's last lines"
    for name in ("status", "ps"):
        assert "arg\\x1b]0;owned\\x07" in views[name].replace("\n", "")


def test_a_pipe_gets_what_a_rank_wrote_as_it_is_and_the_end_says_how_long(
    directories: Callable[..., DirectoryCluster],
) -> None:
    cluster = directories("n1")
    run = cluster.run(*started(cluster, "--", "sh", "-c", f"printf '{HOSTILE}'"))
    (run_id,) = cluster.outcomes()
    assert re.search(r"^run \w+ done in \d+ s: 1 rank on n1 exited with code 0$", run.stderr, re.M)
    assert re.search(r"^run \w+ done in \d+ s: ", cluster.run("status", run_id).stderr, re.M)
    logs = cluster.run("logs", run_id).stdout
    assert "n1:0 | A\x1b]0;owned\x07B\x1b[2J\x9b2JC\x0e\x00\u202eD\x1b]8;;http://x\x1b\\E\x1b[31mred\n" in logs


def test_the_board_survives_ctrl_z_and_a_narrower_terminal(directories: Callable[..., DirectoryCluster]) -> None:
    cluster = directories("n1")
    gate = cluster.inventory.with_name("gate")
    script = cluster.inventory.with_name("job")
    script.write_text(f"echo one; while [ ! -e {gate} ]; do sleep 0.05; done; echo two\n")
    shell = _on_terminal(cluster, "/bin/bash", "--norc", "--noprofile", "-i")
    words = started(cluster, "--node-timeout", "6", "--", "sh", str(script))
    shell.types(shlex.join([sys.executable, "-m", "pylaunch", *words]))
    at = shell.shows(r"running for \d+ s: 1 of 1 ranks")
    shell.resize(40)
    at = shell.shows(r"run \w+ running for \d+ s[^\n]*…", at)
    shell.press(CTRL_Z)
    stopped = shell.shows(r"Stopped.*\$ ", at)
    assert shell.written()[:stopped].rindex(SHOW_CURSOR) > shell.written()[:stopped].rfind(HIDE_CURSOR)
    shell.types("sleep 8; fg")  # Longer than a silent node is waited for.
    at = shell.shows(r"run \w+ running for \d+ s[^\n]*…", stopped)
    gate.touch()
    at = shell.shows(r"\| two.*is left\).*\$ ", at)
    assert shell.written().count(SHOW_CURSOR) >= shell.written().count(HIDE_CURSOR)
    shell.types("exit")
    shell.ends()


def test_attach_shows_what_was_written_before_in_the_order_of_writing(
    directories: Callable[..., DirectoryCluster],
) -> None:
    cluster = directories("n1", "n2")
    turns = cluster.inventory.with_name("turns")
    turns.mkdir()
    waits = f"while [ ! -e {turns}/$turn ]; do sleep 0.05; done"
    job = f"for turn in 0 1 2 3 4; do {waits}; [ $((turn % 2)) != $RANK ] || echo turn $turn; done"
    assert cluster.run(*started(cluster, "--detach", "--", "sh", "-c", job)).returncode == 0
    (run,) = cluster.outcomes()
    for turn in range(4):
        (turns / str(turn)).touch()
        size = len("turn 0\n") * (turn // 2 + 1)
        is_dated(cluster.nodes[f"n{turn % 2 + 1}"], run, f"{turn % 2}.out", size)
    attached = on_terminal(cluster, "attach", run)
    attached.shows(r"turn 0.*turn 1.*turn 2.*turn 3")
    watching = on_terminal(cluster, "status", "--watch", run)
    watching.shows(r"run \w+ running for \d+ s: 2 of 2 ranks on n\[1-2\]")
    watching.press(b"\x03")
    assert watching.ends().rstrip().endswith(f"run {run} continues")
    (turns / "4").touch()
    assert re.findall(r"turn \d", attached.ends()) == [f"turn {turn}" for turn in range(5)]


def is_dated(node: Directory, run: str, stream: str, size: int) -> None:
    """Wait until the agent knows when so many bytes of a log were written."""
    path = RunDirectory(run, str(node.path / "root" / "runs" / run)).times(stream)
    wait_until(lambda: [there for _, there in log_files.read(path)][-1:] == [size], "the agent's look")


def test_verbs_that_ask_all_hosts_name_the_one_for_which_they_wait(
    directories: Callable[..., DirectoryCluster],
) -> None:
    cluster = directories("n1", "n2")
    cluster.nodes["n2"].probe_hangs()
    cluster.nodes["n2"].agent_hangs()
    starting = started(cluster, "--", "true")
    for words in (starting, ("gpus", "-i", str(cluster.inventory)), ("ps", "-i", str(cluster.inventory))):
        verb = on_terminal(cluster, *words)
        verb.shows(r"waiting for n(2|\[1-2\]): no answer yet, \d+ s more at most\n")  # A busy machine is late, too.
        verb.press(b"\x03")
        verb.ends()


def test_logs_are_chosen_by_rank_node_and_end(directories: Callable[..., DirectoryCluster]) -> None:
    cluster = directories("n1", "n2")
    job = 'for step in 1 2 3; do echo "rank $RANK step $step"; done'
    cluster.run(*started(cluster, "--nproc-per-node", "2", "--", "sh", "-c", job), code=0)
    words = ("logs", *cluster.outcomes(), "--rank", "1-2", "--node", "n[1-2]", "--tail", "2")
    shown = cluster.run(*words).stdout.splitlines()
    assert sorted(shown) == [f"{place} | rank {place[-1]} step {step}" for place in ("n1:1", "n2:2") for step in (2, 3)]
