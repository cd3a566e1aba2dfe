"""Words of torchrun, Slurm, kubectl, gh, uv and other tools, and the pylaunch words that do their work. Pure."""

from collections.abc import Collection, Mapping

from pylaunch.model.pasted import LAUNCHERS

_TYPED_FOR = {
    "ps": "squeue list ls get runs job jobs queue sacct",
    "status RUN": "describe show view info inspect scontrol",
    "status RUN --watch": "watch sstat monitor progress",
    "status --watch": "top htop nvitop dashboard",
    "logs RUN -f": "log tail output cat follow",
    "attach RUN": "sattach wait fg join",
    "stop RUN": "scancel cancel kill delete del rm abort terminate down",
    "clean": "prune gc cleanup purge",
    "rerun RUN": "restart resume retry requeue again",
    "start -- train.py": "run launch train srun torchrun torch accelerate deepspeed apply create up",
    "start -- hostname": "exec ssh",
    "start --detach -- train.py": "submit sbatch batch",
    "start --queue -- train.py": "salloc enqueue",
    "start --sync . -- train.py": "sync",
    "push model.bin /data/": "sbcast cp rsync upload scp copy broadcast",
    "start --dry-run -- train.py": "plan preview",
    "gpus": "sinfo devices nvidia-smi nodes hosts free",
    "check": "ping test preflight validate diff compare",
    "check --trial": "diagnose why",
    "bench": "benchmark nccl-tests all-reduce perf",
    "stacks RUN": "trace py-spy pystack debug hang dump",
    "explain RUN": "analyze events",
    "report RUN": "html sreport seff",
    "report RUN --archive": "download archive bundle issue support",
    "provision": "setup install deploy ansible ansible-playbook playbook configure",
    "env lock requirements.txt": "lock pip venv add compile conda",
    "trust": "login auth keyscan ssh-keyscan keys",
    "render slurm -- train.py": "export convert generate render.sbatch render.srun",
    "init": "new inventory discover",
    "help cluster.ini": "configuration",
    "help": "docs man guide topics",
}
"""Words of other tools → the words after `pylaunch` that do their work; `render.sbatch` is typed `render sbatch`."""

_FOR_SBATCH = (
    "--cpus-per-task", "-c", "--mem", "--job-name", "-J", "--reservation", "--account", "-A", "--qos", "--constraint",
    "-C", "--gres", "--gpus-per-node", "--exclusive",
)  # fmt: skip
_SCHEDULER_OPTIONS = {
    "--ntasks-per-node": "--nproc-per-node",
    "--nodelist": "--limit",
    "--exclude": "--limit",
    "--chdir": "--workdir",
    "--wdir": "--workdir",
    "--export": "--env",
    "--np": "--nproc-per-node",
    "--hostfile": "-i",
    "-N": "--nodes",
    "-p": "--partition",
    "-t": "--time",
    "-w": "--limit",
    **dict.fromkeys(_FOR_SBATCH, "--sbatch-arg"),
}


COMMANDS = {word.replace(".", " "): command for command, words in _TYPED_FOR.items() for word in words.split()}
"""Words of other tools, as they are typed after `pylaunch` → the words that do the same."""


def _options() -> Mapping[str, str]:
    found = dict(_SCHEDULER_OPTIONS)
    for launcher in LAUNCHERS.values():
        for flag, parameter in launcher.taken.items():
            found[flag] = f"--{parameter.replace('_', '-')}".replace("--processes", "--nproc-per-node")
    return found


OPTIONS = _options()
"""Options of other launchers → the options with the same meaning, of verbs that have them."""


NEEDLESS = frozenset(flag for launcher in LAUNCHERS.values() for flag in launcher.dropped if flag.startswith("--"))
"""Options of other launchers for what pylaunch does in any case."""


def meant_options(typed: str, known: Collection[str]) -> list[str]:
    """Return the options of `known` that `typed` means or begins."""
    flag = typed.replace("_", "-")
    if OPTIONS.get(flag) in known:
        return [OPTIONS[flag]]
    return sorted(option for option in known if option.startswith(flag))
