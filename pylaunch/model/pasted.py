"""Another launcher's command line in pylaunch's terms. Pure."""

import re
from collections.abc import Mapping
from itertools import dropwhile
from posixpath import basename, dirname

from pylaunch.base.dataclass import dataclass, field, replace
from pylaunch.errors import UsageError
from pylaunch.model.job import Framework
from pylaunch.model.text.argv import Argv, pylaunch, quoted

PYTHON = re.compile(r"python(\d(\.\d+)?)?\Z")
PYTHON_FLAGS_WITH_VALUE = ("-X", "-W", "--check-hash-based-pycs")
ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
MODULES = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "accelerate.commands.launch": "accelerate launch",
    "deepspeed.launcher.runner": "deepspeed",
}
OTHERS = frozenset({
    "mpirun", "mpiexec", "horovodrun", "srun", "docker", "podman", "apptainer", "singularity", "enroot",
})  # fmt: skip
"""Programs that start processes on all nodes, or containers, on their own."""
FLAGS_OF_NAMES = ("-n", "--name", "-e", "--environment", "-J", "--job-name", "--extra", "--group", "--with")
"""Flags whose value may be called as a launcher is: `conda run -n deepspeed …`."""

FLAG, VALUE = "flag", "value"


@dataclass(frozen=True)
class Launcher:
    """Flags of a launcher, written with `-` inside."""

    framework: Framework | None
    taken: Mapping[str, str]
    """Flag → parameter of `pylaunch start`."""

    dropped: Mapping[str, str]
    """Flags whose work pylaunch does in any case → FLAG or VALUE."""

    env: Mapping[str, str] = field(default_factory=dict)
    """Flag → variable of the ranks that it sets."""


TORCHRUN = Launcher(
    None,
    {
        "--nproc-per-node": "nproc_per_node",
        "--nnodes": "nodes",
        "--max-restarts": "max_restarts",
        "--master-port": "port",
    },
    {
        **dict.fromkeys(("--standalone", "--use-env"), FLAG),
        **dict.fromkeys(("--node-rank", "--master-addr", "--local-addr", "--role", "--start-method"), VALUE),
        **dict.fromkeys(("--rdzv-backend", "--rdzv-endpoint", "--rdzv-id", "--rdzv-conf", "--monitor-interval"), VALUE),
        **dict.fromkeys(("--log-dir", "--redirects", "-r", "--tee", "-t", "--local-ranks-filter"), VALUE),
    },
)
ACCELERATE = Launcher(
    Framework.ACCELERATE,
    {
        "--num-processes": "processes",
        "--num-machines": "nodes",
        "--main-process-port": "port",
        "--max-restarts": "max_restarts",
    },
    {
        **dict.fromkeys(("--multi-gpu", "--same-network"), FLAG),
        **dict.fromkeys(("--machine-rank", "--main-process-ip", "--rdzv-backend", "--rdzv-conf"), VALUE),
    },
    {
        "--mixed-precision": "ACCELERATE_MIXED_PRECISION",
        "--dynamo-backend": "ACCELERATE_DYNAMO_BACKEND",
        "--gradient-accumulation-steps": "ACCELERATE_GRADIENT_ACCUMULATION_STEPS",
        "--num-cpu-threads-per-process": "OMP_NUM_THREADS",
        "--cpu": "ACCELERATE_USE_CPU",
    },
)
DEEPSPEED = Launcher(
    Framework.DEEPSPEED,
    {"--num-gpus": "nproc_per_node", "--num-nodes": "nodes", "--master-port": "port"},
    {
        **dict.fromkeys(("--no-ssh", "--no-ssh-check", "--force-multi"), FLAG),
        **dict.fromkeys(("--master-addr", "--launcher", "--node-rank"), VALUE),
    },
)
LAUNCHERS = {"torchrun": TORCHRUN, "accelerate launch": ACCELERATE, "deepspeed": DEEPSPEED}
ACCELERATE_SETTINGS = (
    "accelerate's settings are variables of the ranks, without which an FSDP or DeepSpeed script trains otherwise:"
    " accelerate itself prints them"
)
_PRINTED = "--num_machines 1 --num_processes 1 --no_python env | grep -E '^(ACCELERATE|FSDP|MEGATRON|PARALLELISM)_'"
_GIVEN = "$(sed 's/^/--env=/' accelerate.env)"
ELSEWHERE = {
    "--hostfile": "hosts are those of the inventory, and pylaunch init --from-hostfile FILE writes one",
    "--include": "--limit selects hosts, and devices=0,1 in the inventory the devices of each",
    "--exclude": "--limit selects hosts, and devices=0,1 in the inventory the devices of each",
    "--ssh-port": "ansible_port in the inventory",
}
"""Flags of launchers → where pylaunch has what they name."""
MODULE_FLAGS = ("-m", "--module")
PROGRAM_FLAGS = {"--no-local-rank": Framework.DIRECT, "--no-python": Framework.COMMAND}


@dataclass(frozen=True)
class Pasted:
    """A command line taken apart."""

    launcher: str
    """As it is called, or "" where there is none in it."""

    words: Argv
    """The program and its arguments; `-m NAME` and its arguments for a module."""

    framework: Framework | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    """Parameters of `pylaunch start`, as they would be typed."""

    env: Mapping[str, str] = field(default_factory=dict)


def taken_apart(words: Argv) -> Pasted | None:
    """Return a launcher's or Python's command line in pylaunch's terms; None for any other program.

    Raises UsageError for a launcher, or a flag of one, that pylaunch has no equivalent for.
    """
    assigned, words = words, program_after(words)
    if not words:
        return None
    env = dict(each.split("=", 1) for each in assigned[: -len(words)])
    program, rest = basename(words[0]), words[1:]
    options = {} if "/" not in words[0] else {"python": f"{dirname(words[0])}/python"}
    if program in OTHERS:
        raise _refusal(program, rest)
    if PYTHON.match(program):
        found = _of_python(rest, {} if "/" not in words[0] else {"python": words[0]})
    elif program == "accelerate" and rest[:1] == ("launch",):
        found = _of_launcher("accelerate launch", rest[1:], options)
    elif program in ("torchrun", "deepspeed"):
        found = _of_launcher(program, rest, options)
    elif not _is_script(program) and (line := _launched(rest)):
        raise _refusal(program, line)
    else:
        found = None
    return None if found is None else replace(found, env={**env, **found.env})


def program_after(words: Argv) -> Argv:
    """Return what follows the `NAME=VALUE` with which a line of a shell begins."""
    return tuple(dropwhile(ASSIGNMENT.match, words))


def _launched(rest: Argv) -> Argv:
    """Return `rest` from a launcher on; () without one before a script or Python."""
    for at, (flag, word) in enumerate(zip(("", *rest), rest, strict=False)):
        if _is_script(word) or _is_python(word):
            break
        is_launcher = any(f"{' '.join(rest[at:])} ".startswith(f"{name} ") for name in LAUNCHERS)
        if is_launcher and flag not in FLAGS_OF_NAMES:
            return rest[at:]
    return ()


def _of_python(rest: Argv, options: Mapping[str, str]) -> Pasted | None:
    while rest and rest[0].startswith("-") and rest[0] not in ("-m", "-c", "-"):
        rest = rest[2:] if rest[0] in PYTHON_FLAGS_WITH_VALUE else rest[1:]
    if rest[:1] == ("-m",) and len(rest) > 1:
        if rest[1] in MODULES:
            return _of_launcher(MODULES[rest[1]], rest[2:], options)
        return Pasted("", rest, options=options)
    return Pasted("", rest, options=options) if rest and rest[0].endswith(".py") else None


def _of_launcher(name: str, rest: Argv, options: Mapping[str, str]) -> Pasted:
    launcher = LAUNCHERS[name]
    taken, env, is_module = {**options}, {}, False
    unknown: dict[str, Argv] = {}
    framework = launcher.framework
    while rest and rest[0].startswith("-") and rest[0] != "--":
        word = rest[0]
        typed, equals, value = word.partition("=")
        flag = typed if not typed.startswith("--") else typed.replace("_", "-")
        rest = rest[1:]
        if flag in MODULE_FLAGS:
            is_module = True
            continue
        if flag in PROGRAM_FLAGS:
            framework = PROGRAM_FLAGS[flag]
            continue
        has_value = (
            flag in launcher.taken or (flag in launcher.env and flag != "--cpu") or launcher.dropped.get(flag) == VALUE
        )
        if has_value and not equals and rest and not rest[0].startswith("--"):
            value, rest = rest[0], rest[1:]
        if has_value and not value.strip():
            raise UsageError(f"{name} {typed}: expected a value", hint="is the variable of the shell there not set?")
        if flag in launcher.taken:
            taken[launcher.taken[flag]] = value
        elif flag in launcher.env:
            env[launcher.env[flag]] = _env_value(flag, value)
        elif flag not in launcher.dropped:
            after = rest if equals else _without_values(rest)
            unknown[typed], rest = (word, *rest[: len(rest) - len(after)]), after
    words = rest[1:] if rest[:1] == ("--",) else rest
    program = ("-m", *words) if is_module else words
    if unknown:
        raise _unknown(name, unknown, _per_node(name, taken, program), env, program or ("train.py",))
    if not words:
        raise UsageError(f"{name}: no script follows its flags", hint=pylaunch("start", "--", "train.py"))
    if not is_module and not _is_script(words[0]) and framework is not Framework.COMMAND:
        raise UsageError(
            f"{name} is given {words[0]}, which does not end in .py",
            hint=pylaunch("start", "--framework", "command", "--", *words),
        )
    return Pasted(name, program, framework, _per_node(name, taken, program), env)


def _without_values(rest: Argv) -> Argv:
    """Return `rest` from the next flag or script on."""
    return rest[next((at for at, word in enumerate(rest) if word.startswith("-") or _is_script(word)), len(rest)) :]


def _env_value(flag: str, value: str) -> str:
    if flag == "--cpu":
        return "true"
    return value.upper() if flag == "--dynamo-backend" else value


def _per_node(name: str, taken: Mapping[str, str], program: Argv) -> Mapping[str, str]:
    """`taken` with what pylaunch counts otherwise. Raises UsageError for a number that does not fit."""
    options = {key: value for key, value in taken.items() if key != "processes"}
    if "processes" in taken:
        options["nproc_per_node"] = _divided(name, taken["processes"], taken.get("nodes", "1"), program)
    if options.get("nproc_per_node") in ("gpu", "cpu"):
        options["nproc_per_node"] = "auto"
    if options.get("port") == "0":
        del options["port"]  # Any free one, as without the flag.
    if ":" in options.get("nodes", ""):
        least, _, most = options["nodes"].partition(":")
        raise UsageError(
            f"{name} --nnodes={options['nodes']}: pylaunch starts a fixed number of nodes",
            hint=f"--nodes {most}; with --max-restarts 3 --min-nodes {least}, restarts may have fewer",
        )
    return options


def _divided(name: str, processes: str, machines: str, program: Argv) -> str:
    if not (processes.isdecimal() and machines.isdecimal() and int(machines)) or int(processes) % int(machines):
        raise UsageError(
            f"{name} --num_processes {processes} on {machines} machines: expected the same number on each",
            hint=_line({"nodes": machines}, {}, program),
        )
    return str(int(processes) // int(machines))


def _line(options: Mapping[str, str], env: Mapping[str, str], program: Argv) -> str:
    """Return the command that starts `program` with these parameters and variables."""
    given = [word for key, value in options.items() for word in (f"--{key.replace('_', '-')}", value)]
    given += [word for key, value in env.items() for word in ("--env", f"{key}={value}")]
    return pylaunch("start", *given, "--", *program)


def _unknown(
    name: str, flags: Mapping[str, Argv], options: Mapping[str, str], env: Mapping[str, str], program: Argv
) -> UsageError:
    """Return the refusal of `flags`, each with its words."""
    framework = LAUNCHERS[name].framework or Framework.TORCHRUN
    evidence = [f"{flag}: {at}" for flag in flags if (at := ELSEWHERE.get(flag.replace("_", "-")))]
    message = f"{name} {', '.join(flags)}: pylaunch starts the ranks itself and has no such flag"
    options = {"framework": framework.value, **options}
    if framework is not Framework.ACCELERATE:
        return UsageError(message, evidence=evidence, hint=_line(options, env, program))
    words = quoted(tuple(word for each in flags.values() for word in each))
    first = f"{name} {words} {_PRINTED} >accelerate.env"
    start = _line(options, env, program).replace("start", f"start {_GIVEN}", 1)
    hint = f"{first} && {start}"
    return UsageError(message, evidence=[*evidence, ACCELERATE_SETTINGS], hint=hint)


def _refusal(program: str, rest: Argv) -> UsageError:
    """Return the refusal of a line whose `program` starts `rest`, its flags aside, in a place of its own."""
    starts = (at for at, word in enumerate(rest) if _is_python(word) or _is_script(word) or word in LAUNCHERS)
    words = _launched(rest) or rest[next(starts, len(rest)) :] or ("train.py",)
    return UsageError(
        f"pylaunch would start one {program} per rank, and no rank would know the others",
        hint=f"name what it starts: {pylaunch('start', '--', *words)} (an image: --container)",
    )


def _is_script(word: str) -> bool:
    return word.endswith(".py")


def _is_python(word: str) -> bool:
    return PYTHON.match(basename(word)) is not None


def described_line(pasted: Pasted, used: Mapping[str, str]) -> str:
    """One line about what was made of it; `used` are the options that hold."""
    taken = [f"--{name.replace('_', '-')} {value}" for name, value in used.items()]
    taken += [f"--env {name}={value}" for name, value in pasted.env.items()]
    parts = [f"takes over {', '.join(taken)}"] if taken else []
    return f"note: pylaunch starts the ranks in place of {pasted.launcher}" + "".join(f", {part}" for part in parts)
