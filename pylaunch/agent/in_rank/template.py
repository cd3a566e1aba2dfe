"""Template of the ranks of a node: import modules once, then fork the ranks, which return and run the script.

The agent starts it with the command line of the ranks, so that a rank differs from a plain start only by the modules
that are imported already. `become_rank` returns in a rank, once the gate has opened; the template and the process that
forks the ranks always end here. Whatever ranks could not share (threads, open files, child processes, a variable of
one rank that an import reads) refuses the fork, and the agent starts the ranks in the ordinary way.
Read by `agent/run/ranks/template.py`: packets of fields that NUL separates. Imports nothing that a plain rank
would not.
"""

import _signal  # type: ignore[import-not-found]  # as in questions.py
import _socket
import os
import stat
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VERIFY, FIRST, IMPORT, FORKED, REFUSED = b"verify", b"first", b"import", b"forked", b"refused"
LARGEST_PACKET = 1 << 20
MOST_DESCRIPTORS = 250
PORT_ENTRY = "@port@"

PR_SET_PDEATHSIG = 1
ADOPTED_S = 10.0
"""Time for the supervisor to become the parent of a rank."""

THREADS_END_S = 0.2
"""Time for threads that a library ends before each fork (OpenBLAS does) to leave the list of the kernel."""

OWN_DIRECTORY = os.path.dirname(os.__file__)
"""Directory of the standard library, in which distributions keep a sitecustomize of theirs."""


def become_rank(descriptor: int, here: str) -> None:
    """Obey the request of the agent at `descriptor`. Returns in a rank; every other process ends here.

    `here` is the entry of sys.path that contains this module.
    """
    is_rank = False
    template = os.getpid()
    try:
        agent = _socket.socket(fileno=descriptor)
        os.set_inheritable(descriptor, False)
        fields, descriptors = request(agent)
        if fields[0] == VERIFY:
            agent.send(FIRST)
        else:
            sys.path[:] = [entry for entry in sys.path if entry != here]
            is_rank = served(agent, ForkRequest(fields, descriptors))
    except OSError as error:
        if os.getpid() == template:
            agent.send(REFUSED + b"\0" + str(error).encode("utf-8", "replace"))
    finally:
        if not is_rank:
            os._exit(0)


def request(agent: _socket.socket) -> "tuple[list[bytes], list[int]]":
    """Return the fields of the agent's request, and the descriptors that arrived with it."""
    size = memoryview(bytearray(4)).cast("i").itemsize
    packet, ancillary, _, _ = agent.recvmsg(LARGEST_PACKET, _socket.CMSG_SPACE(MOST_DESCRIPTORS * size))
    descriptors: list[int] = []
    for level, kind, data in ancillary:
        if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS):
            descriptors += memoryview(data[: len(data) - len(data) % size]).cast("i").tolist()
    for each in descriptors:
        os.set_inheritable(each, False)
    return packet.split(b"\0"), descriptors


class ForkRequest:
    """Request of the agent to fork ranks, after the import of `modules`."""

    def __init__(self, fields: "list[bytes]", descriptors: "list[int]") -> None:
        words = [os.fsdecode(field) for field in fields[1:]]
        self.descriptors = descriptors
        self.supervisor, ranks, count = (int(word) for word in words[:3])
        self.modules = words[3 : 3 + count]
        self.variables: list[dict[str, str | None]] = [{} for _ in range(ranks)]
        """Variables of each rank that this process does not have; None for one that the rank does not have."""

        for each in words[3 + count :]:
            place, name, *value = each.split("=", 2)
            self.variables[int(place)][name] = value[0] if value else None

    def names(self) -> "set[str]":
        return {name for each in self.variables for name in each}


def served(agent: _socket.socket, asked: ForkRequest) -> bool:
    """Import the modules and fork the ranks. Returns True in a rank, once the gate has opened."""
    for name in asked.names():
        os.environ.pop(name, None)
    before = set(descriptors_open().items())
    problem = customised() or imported(asked)
    opened = sorted(set(descriptors_open().items()) - before)
    problem = problem or "".join([f"the import opened {name}" for each, name in opened if not is_read_only(each)][:1])
    if problem:
        refuse(agent, problem)
        return False
    import ctypes  # noqa: F401, PLC0415 -- once for all ranks

    return forked(agent, asked, opened)


def forked(agent: _socket.socket, asked: ForkRequest, opened: "list[tuple[int, str]]") -> bool:
    """Fork the ranks and report them. Returns True in a rank, once the gate has opened."""
    reports, report = os.pipe()
    waiting, permit = os.pipe()
    between = fork()
    if between == 0:
        os.close(permit)
        os.close(reports)
        if not os.read(waiting, 1):
            return False
        os.close(waiting)
        for number in range(len(asked.variables)):
            if fork() == 0:
                agent.close()
                for inherited, _ in opened:
                    reopen(inherited)
                return is_released(number, asked, report)
        return False
    os.close(report)
    os.close(waiting)
    running = threads_left()
    if running > 1:
        refuse(agent, f"{', '.join(asked.modules)} started {running - 1} threads")
        return False
    os.write(permit, b"g")
    found = reported(reports, len(asked.variables))
    os.waitpid(between, 0)
    agent.send(b"\0".join([FORKED, *found]))
    return False


def refuse(agent: _socket.socket, problem: str) -> None:
    agent.send(REFUSED + b"\0" + problem.encode("utf-8", "replace"))


def reported(reports: int, ranks: int) -> "list[bytes]":
    """Return the process id of each rank once all of them are at the gate; fewer if one ended before."""
    found: dict[int, bytes] = {}
    while len(found) < ranks:
        report = os.read(reports, 8)
        if len(report) < 8:
            break
        found[int.from_bytes(report[:4], "big")] = str(int.from_bytes(report[4:], "big")).encode()
    return [found[number] for number in sorted(found)]


def is_released(number: int, asked: ForkRequest, report: int) -> bool:
    """Become rank `number` of the node and wait at the gate. Returns False if the rank must not run."""
    if not adopted_by(asked.supervisor):
        return False
    os.setsid()
    descriptors = asked.descriptors
    gate, (started, out, err) = descriptors[0], descriptors[1 + 3 * number : 4 + 3 * number]
    os.dup2(out, 1)
    os.dup2(err, 2)
    for each in descriptors:
        if each not in (gate, started):
            os.close(each)
    seed_generators()
    os.write(report, number.to_bytes(4, "big") + os.getpid().to_bytes(4, "big"))
    os.close(report)
    token = os.read(gate, 4)
    if len(token) < 4:
        return False
    port = int.from_bytes(token, sys.byteorder)
    for name, value in asked.variables[number].items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value.replace(PORT_ENTRY, str(port)) if port else value
    now = memoryview(bytearray(8)).cast("d")
    now[0] = time.time()
    os.write(started, now)
    os.close(started)
    os.close(gate)
    return True


def seed_generators() -> None:
    """Seed the generators that NumPy and torch seed at their import; `random` does that after each fork."""
    numpy_random, torch = sys.modules.get("numpy.random"), sys.modules.get("torch")
    if numpy_random is not None:
        numpy_random.seed()
    if torch is not None:
        torch.default_generator.seed()


def adopted_by(supervisor: int) -> bool:
    """Wait until `supervisor` is the parent, whose end then ends this process. Returns False if it is gone."""
    import ctypes  # noqa: PLC0415 -- imported before the fork

    until = time.monotonic() + ADOPTED_S
    while os.getppid() != supervisor:
        if time.monotonic() > until:
            return False
        time.sleep(0.0005)
    failed = ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(_signal.SIGKILL), 0, 0, 0)
    return not failed and os.getppid() == supervisor


def fork() -> int:
    """Fork without the warnings of libraries (JAX warns of any fork): the conditions of a safe fork are met."""
    warnings = sys.modules.get("warnings")
    if warnings is None:
        return os.fork()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return os.fork()


def threads_left() -> int:
    """Return the number of threads of this process, right after a fork."""
    until = time.monotonic() + THREADS_END_S
    while True:
        count = len(os.listdir("/proc/self/task"))
        if count == 1 or time.monotonic() > until:
            return count
        time.sleep(0.001)


def customised() -> str:
    """Return a customisation of Python that a plain start runs before the imports; "" for none."""
    if sys.gettrace() is not None or sys.getprofile() is not None:
        return "a profiler or debugger is active"
    find = sys.modules["_frozen_importlib_external"].PathFinder.find_spec
    site = sys.modules.get("site")
    names = ("sitecustomize", "usercustomize") if getattr(site, "ENABLE_USER_SITE", False) else ("sitecustomize",)
    for name in names:
        spec = find(name, sys.path)
        if spec is not None and os.path.dirname(spec.origin or "") != OWN_DIRECTORY:
            return f"Python runs {spec.origin or name} first"
    return ""


def imported(asked: ForkRequest) -> str:
    """Import the modules. Return the reason why ranks cannot share them."""
    before = (os.getcwd(), list(sys.path))
    variables = Variables()
    try:
        for module in asked.modules:
            try:
                import_one(module)
            except BaseException as error:  # noqa: BLE001 -- a script that imports it shows the error itself
                return f"import of {module} failed: {type(error).__name__}: {error}"
    finally:
        variables.restore()
    if (os.getcwd(), list(sys.path)) != before:
        return "the import changes the working directory or sys.path"
    names = sorted(variables.touched & asked.names())
    if names:
        return f"the import uses {', '.join(names)}, a variable of one rank"
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return ""
    return "the import started a process"


def import_one(entry: str) -> None:
    """Import MODULE, or MODULE:NAME as `from MODULE import NAME` does."""
    module, _, name = entry.partition(":")
    __import__(module)
    if name and not hasattr(sys.modules[module], name):
        __import__(f"{module}.{name}")


def descriptors_open() -> "dict[int, str]":
    """Return the open descriptors of this process with their targets."""
    found: dict[int, str] = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            continue  # The descriptor of the list itself.
    return found


def is_read_only(descriptor: int) -> bool:
    """Return whether `descriptor` is a regular file that is open for reading alone."""
    return stat.S_ISREG(os.fstat(descriptor).st_mode) and state_of(descriptor)[1] & os.O_ACCMODE == os.O_RDONLY


def state_of(descriptor: int) -> "tuple[int, int]":
    """Return the position and the flags of an open file (proc(5), fdinfo)."""
    with open(f"/proc/self/fdinfo/{descriptor}", encoding="ascii") as source:
        words = source.read().split()
    return int(words[1]), int(words[3], 8)


def reopen(descriptor: int) -> None:
    """Open the file of `descriptor` again in its place: ranks would share the position of the inherited one."""
    position, flags = state_of(descriptor)
    again = os.open(f"/proc/self/fd/{descriptor}", flags)
    os.lseek(again, position, os.SEEK_SET)
    os.dup2(again, descriptor, inheritable=not flags & os.O_CLOEXEC)
    os.close(again)


class Variables:
    """Notices which variables imports use, through os.environ."""

    def __init__(self) -> None:
        self.touched: set[str] = set()
        self._kind: Any = type(os.environ)
        touched, kind = self.touched, self._kind

        def note(name: object) -> None:
            if isinstance(name, (str, bytes)):
                touched.add(os.fsdecode(name))

        class NotedEnvironment(kind):  # type: ignore[misc, valid-type]  # a private class of os
            def __getitem__(self, name: "Any") -> "Any":
                note(name)
                return super().__getitem__(name)

            def __setitem__(self, name: "Any", value: "Any") -> None:
                note(name)
                super().__setitem__(name, value)

            def __delitem__(self, name: "Any") -> None:
                note(name)
                super().__delitem__(name)

        for each in (os.environ, os.environb):
            each.__class__ = NotedEnvironment

    def restore(self) -> None:
        """Make os.environ an object of its own class again."""
        for each in (os.environ, os.environb):
            each.__class__ = self._kind
