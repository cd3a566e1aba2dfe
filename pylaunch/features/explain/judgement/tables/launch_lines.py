"""Lines of batch scripts and launchers: `#SBATCH` headers, assignments, and commands with their options. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence

from pylaunch.base.dataclass import dataclass
from pylaunch.features.explain.judgement.indications.form import Excerpts, LogExcerpt, LogForm

HEADER = LogForm("sbatch-header", ("#SBATCH",), re.compile(r"^#SBATCH\s{1,10}(?P<options>-.{1,300})"))
ASSIGNMENT = LogForm(
    "shell-assignment",
    (
        "export ",
        "NODES=",
        "MASTER_ADDR=",
        "MASTER_PORT=",
        "NODE_RANK=",
        "PER_NODE=",
        "NUM_GPUS=",
        "CUDA_VISIBLE_DEVICES=",
    ),
    re.compile(
        r"^(?:export\s{1,4})?(?P<name>[A-Z][A-Z0-9_]{1,40})=[\"']?(?P<value>[\w.,:$(){}%/-]{1,200})[\"']?"
        r"\s{0,20}(?:#.{0,200})?$"
    ),
)
_LAUNCHERS = r"torchrun|torch\.distributed\.(?:run|launch)|accelerate launch|deepspeed|srun|mpirun|mpiexec"
COMMAND = LogForm(
    "launch-command",
    (
        "torchrun",
        "torch.distributed.run",
        "torch.distributed.launch",
        "accelerate launch",
        "deepspeed ",
        "srun ",
        "mpirun ",
        "mpiexec ",
    ),
    re.compile(
        rf"(?:^|[\s;&(/\"'])(?:{_LAUNCHERS})\s{{1,20}}"
        rf"(?:-{{1,2}}[a-zA-Z]|\\$|\$|python|torchrun|bash|accelerate|\S{{1,200}}\.py\b)"
    ),
    follows=24,
)
ACCELERATE = LogForm(
    "accelerate-config",
    ("compute_environment:",),
    re.compile(r"^(?:- )?compute_environment: LOCAL_MACHINE"),
    follows=40,
    most=8,
)
FORMS = (HEADER, ASSIGNMENT, COMMAND, ACCELERATE)

LONGEST = 3000
"""Characters of a command with its continued lines."""

_WORD = re.compile(
    r"(?:^|/)(?P<name>torchrun|torch\.distributed\.(?:run|launch)|accelerate|deepspeed|srun|mpirun|mpiexec)$"
)
_ASSIGNED = re.compile(r"(?P<name>[A-Z][A-Z0-9_]{1,40})=(?P<value>\S{1,200})")
_VARIABLE = re.compile(r"\$\{?(?P<name>[A-Z][A-Z0-9_]{1,40})(?::-(?P<default>[^}]{1,80}))?\}?")
_PROMPT = re.compile(r"^(?:\([\w.-]{1,60}\) )?\[?[\w-]{1,40}@(?P<host>[\w.-]{1,80})[:\s]")
_SHORT = {"-N": "nodes", "-n": "ntasks", "-G": "gpus", "-w": "nodelist", "-np": "ntasks"}
_FLAGS = frozenset(
    {"standalone", "no_python", "run_path", "m", "module", "multi_gpu", "use_deepspeed", "use_fsdp", "use_env"}
)
"""Options of launchers without a value."""

_RENAMED = {
    "num_machines": "nnodes", "num_nodes": "nnodes", "machine_rank": "node_rank", "main_process_ip": "master_addr",
    "main_process_port": "master_port", "num_gpus": "nproc_per_node", "gpus": "nproc_per_node",
}  # fmt: skip
"""Options of accelerate and DeepSpeed, as torchrun names them."""


@dataclass(frozen=True)
class LaunchCommand:
    """Command that starts processes."""

    launcher: str
    """Last launcher of the line: torchrun under srun is torchrun; "srun" where it starts the program itself."""

    options: Mapping[str, str]
    """Options as torchrun names them, with underscores; "" for a value that the text does not show."""

    srun: Mapping[str, str] | None
    """Options of srun or mpirun in front; None without one."""

    variables: Mapping[str, str]
    """Assignments in front of it."""

    program: str
    host: str
    """Host of the shell's prompt or of the line; "" without one."""

    excerpt: LogExcerpt

    def number(self, name: str) -> int | None:
        """Return an option that is a plain number."""
        value = self.options.get(name, "")
        return int(value) if value.isdigit() and len(value) < 8 else None


@dataclass(frozen=True)
class LaunchScript:
    """Batch script or session of a shell in one log."""

    header: Mapping[str, str]
    """Options of `#SBATCH` lines by their long name."""

    variables: Mapping[str, str]
    commands: tuple[LaunchCommand, ...]
    lines: tuple[LogExcerpt, ...]
    """Lines of the header."""

    uses_srun: bool
    """One of the commands is behind srun or mpirun."""

    @property
    def nodes(self) -> int | None:
        """Nodes that the header requests."""
        return _plain(self.header.get("nodes", ""))

    @property
    def gpus_per_node(self) -> int | None:
        """GPUs of each node that the header requests."""
        for name in ("gpus_per_node", "gres"):
            if found := re.search(r"(?:^|:|gpu:)(\d{1,3})(?:\(|,|$)", self.header.get(name, "")):
                return int(found[1])
        return None

    def tasks_per_node(self, command: LaunchCommand) -> int | None:
        """Return the tasks of a command on each node, by its own options or by the header."""
        for options in (command.srun or {}, self.header):
            tasks, nodes = _plain(options.get("ntasks", "")), _plain(options.get("nodes", "")) or self.nodes
            if (each := _plain(options.get("ntasks_per_node", ""))) is not None:
                return each
            if tasks is not None and nodes:
                return -(-tasks // nodes)
            if "ntasks" in options or "ntasks_per_node" in options:
                return None
        return None


def launch_scripts(excerpts: Excerpts) -> Iterator[LaunchScript]:
    """Yield the launcher lines of each log."""
    files: dict[str, dict[str, list[LogExcerpt]]] = {}
    for form in FORMS:
        for each in excerpts.get(form.id, ()):
            files.setdefault(each.file, {}).setdefault(form.id, []).append(each)
    for found in files.values():
        lines = found.get(HEADER.id, [])
        header: dict[str, str] = {}
        for line in lines:
            header |= _options(line.groups["options"].split("#")[0].split(), {})[0]
        variables = _variables(found.get(ASSIGNMENT.id, ()), header)
        typed = (_command(each, variables) for each in found.get(COMMAND.id, ()))
        commands = [command for command in typed if command is not None]
        commands += map(_configured, found.get(ACCELERATE.id, ()))
        uses_srun = any(each.srun is not None for each in commands)
        yield LaunchScript(header, variables, tuple(commands), tuple(lines), uses_srun)


def _variables(lines: Sequence[LogExcerpt], header: Mapping[str, str]) -> dict[str, str]:
    known = {"SLURM_NNODES": header.get("nodes", ""), "SLURM_JOB_NUM_NODES": header.get("nodes", "")}
    values: dict[str, set[str]] = {}
    for line in lines:
        values.setdefault(line.groups["name"], set()).add(_resolved(line.groups["value"], known))
    return known | {name: next(iter(found)) for name, found in values.items() if len(found) == 1}


def _resolved(value: str, variables: Mapping[str, str]) -> str:
    """Return a value with its variables replaced; "" if one is not known."""
    if "$(" in value or "`" in value:
        return ""
    unknown = False

    def known(found: re.Match[str]) -> str:
        nonlocal unknown
        text = variables.get(found["name"]) or found["default"] or ""
        unknown = unknown or not text
        return text

    text = _VARIABLE.sub(known, value)
    return "" if unknown or "$" in text else text


def _command(excerpt: LogExcerpt, variables: Mapping[str, str]) -> LaunchCommand | None:
    words = _words(excerpt.lines)
    own: dict[str, str] = {}
    srun: dict[str, str] | None = None
    options: dict[str, str] = {}
    launcher, rest = "", words
    while rest:
        at = next((at for at, word in enumerate(rest) if _WORD.search(word)), None)
        if at is None:
            break
        own |= {
            found["name"]: _resolved(found["value"], variables)
            for word in rest[:at]
            if (found := _ASSIGNED.fullmatch(word))
        }
        found_word = _WORD.search(rest[at])
        assert found_word is not None
        launcher = found_word["name"]
        options, rest = _options(rest[at + 1 + (launcher == "accelerate") :], {**variables, **own})
        if launcher in ("srun", "mpirun", "mpiexec"):
            srun = options
        else:
            break
    if not launcher:
        return None
    program = next((word for word in rest if not word.startswith("-")), "")
    prompt = _PROMPT.match(excerpt.lines[0])
    host = prompt["host"] if prompt else excerpt.origin.host or ""
    return LaunchCommand(launcher, options, srun, own, program, host, excerpt)


_KEY = re.compile(r"^\s{0,8}(?:- )?(?P<name>[a-z][a-z0-9_]{1,40}): ?(?P<value>.{0,80}?)\s{0,20}$")


def _configured(block: LogExcerpt) -> LaunchCommand:
    """Return the configuration file of accelerate as the command that it stands for."""
    options: dict[str, str] = {}
    for line in block.lines[1:]:
        if (found := _KEY.match(line)) is None or found["name"] == "compute_environment":
            break
        options[_RENAMED.get(found["name"], found["name"])] = found["value"].strip("\"'")
    return LaunchCommand("accelerate", options, None, {}, "", "", block)


def _words(lines: Sequence[str]) -> list[str]:
    """Return the words of a command with its continued lines."""
    text = ""
    for line in lines:
        part = line.rstrip()
        text += " " + part.removesuffix("\\")
        if not part.endswith("\\") or len(text) > LONGEST:
            break
    return [word.strip("\"'();&`") for word in text[:LONGEST].split()]


def _options(words: Sequence[str], variables: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the options at the beginning of `words`, and the words after them."""
    found: dict[str, str] = {}
    at = 0
    while at < len(words) and words[at].startswith("-"):
        name, has_value, value = words[at].partition("=")
        short = _SHORT.get(name)
        if short is None and re.fullmatch(r"-[NnG]\d{1,6}", name):
            short, value, has_value = _SHORT[name[:2]], name[2:], "="
        key = short or name.lstrip("-").replace("-", "_")
        if not has_value and key not in _FLAGS and at + 1 < len(words) and not words[at + 1].startswith("-"):
            at += 1
            value = words[at]
        at += 1
        found[_RENAMED.get(key, key)] = _resolved(value.strip("\"'"), variables)
    return found, list(words[at:])


def _plain(text: str) -> int | None:
    return int(text) if text.isdigit() and len(text) < 8 else None
