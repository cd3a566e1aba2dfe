"""The place of each command line of the guides: directories, the nodes of a lab, or no test, with the reason.

A line that matches nothing here runs on directories (tests/starts/test_guides.py), so that a new one is run or fails.
"""

import re

from tests.documented_commands import PAGES, DocumentedCommand, commands_of

ON_REAL_NODES = re.compile(
    r"pylaunch (?:trust|env|provision|verify|bench)\b|pylaunch check .*--fix|pylaunch start .*--sync examples "
)
"""Lines that tests/lab/test_readme.py runs: they change hosts, or need SSH or the provisioned environment."""

IN_NO_TEST = {
    "pylaunch init ": "needs hosts that the resolver knows; tests/starts/test_init.py",
    "sinfo ": "needs Slurm; tests/features/init/test_sources.py has the output",
    "scontrol ": "needs Slurm; tests/features/init/test_sources.py has the output",
    "pylaunch provision -i cluster.ini --rollback": "needs a second environment; tests/roles/test_environments.py",
    "pylaunch provision -i cluster.ini --reset": "takes the shared lab apart; tests/lab/test_provision_life.py",
    "pylaunch trust --replace --limit gpu01": "needs a host with another key; tests/lab/test_provision_life.py",
    "pylaunch trust -i cluster.ini --replace": "needs a host with another key; tests/lab/test_provision_life.py",
    "pylaunch env lock -i cluster.ini examples/": "needs a wheel of DeepSpeed; tests/lab/conftest.py locks this file",
    "pylaunch start -i cluster.ini --sync examples -- accelerate_train": "tests/lab/test_frameworks.py trains it",
    "pylaunch start -i cluster.ini --sync examples -- deepspeed_train": "tests/lab/test_framework_output.py trains it",
    "pylaunch start --scheduler slurm": "needs nodes with 8 GPUs; tests/lab/test_slurm.py has the same options",
    "pylaunch start -- train.py": "is a line of a job script of Slurm; tests/lab/test_slurm.py",
    "pylaunch start --grace 100": "is a line of a job script of Slurm; tests/lab/test_slurm.py",
    "pylaunch start -i cluster.ini --sync . --python /opt/venv/": "needs vLLM; tests/starts/test_job.py",
    "pylaunch start -i cluster.ini --sync . --framework ray": "needs Ray; tests/starts/test_ray.py",
    "pylaunch start -i cluster.ini --workdir /shared/prime-rl": "needs prime-rl and GPUs",
    "pylaunch start -i cluster.ini --nodes 2 --framework ray": "needs verl or OpenRLHF, and GPUs",
    "pylaunch start -i cluster.ini --container": "needs an image on the nodes; tests/starts/test_containers.py",
    "pylaunch start --container": "needs an image on the nodes; tests/starts/test_containers.py",
    "pylaunch start -i cluster.ini --sync . --container": "needs an image; tests/starts/test_containers.py",
    "pylaunch check -H": "needs hosts that the resolver knows; tests/lab/test_hosts_without_a_file.py",
    "pylaunch push ": "needs files of the reader; tests/starts/test_push.py and tests/lab/test_push.py push others",
    "pylaunch metrics": "serves until Ctrl-C; tests/starts/test_metrics.py",
    "ssh-keygen -lf": "is typed on the console of a host",
    "ufw ": "opens ports of a host with ufw",
    "pip wheel ": "downloads the dependencies of pylaunch; tests/contract/test_installed_wheel.py builds its wheel",
    "docker ": "needs the daemon of docker",
    "export PIP_NO_INDEX": "belongs to the next line",
    "pip install ": "installs what scripts/setup installs",
    "DS_BUILD_OPS=0 pip wheel": "downloads sources; tests/lab/conftest.py builds the same wheel",
    "export ANSIBLE_ROLES_PATH": "belongs to the next line",
    "ansible-playbook ": "is Ansible alone and takes half a minute; the roles' tests run the same playbook",
}
"""Reasons by the beginning of a line."""


_SAMPLE = re.compile(
    r"\s*(?:error:|warning:|note:|FAIL|run [0-9a-f]|rank \d|waiting for|Slurm job"
    r"|sbatch script"  # what pylaunch prints
    r"|n\S*: |n\d:\d |\[0-5\] \||pid \d"  # of a node, of a rank, of several
    r"|\[\w|# |#!|\S+ ansible_host="  # a file
    r"|refused = |raise )"  # Python
)


def reason(command: DocumentedCommand) -> str | None:
    """Return why no test runs this line; None if one does."""
    return next((why for begin, why in IN_NO_TEST.items() if command.typed.startswith(begin)), None)


def is_sample(block: str) -> bool:
    """Return whether a block without a command line shows output or a file."""
    return _SAMPLE.match(block) is not None


def on_directories(page: str) -> list[DocumentedCommand]:
    """Return the lines of a guide that run on directories, in its order."""
    found = next(commands_of(path) for path in GUIDES if path.name == page)
    return [each for each in found if reason(each) is None and not ON_REAL_NODES.search(each.typed)]


def on_real_nodes() -> list[DocumentedCommand]:
    """Return the lines of all guides that run on real nodes, in the order of pages and lines, each once."""
    found = [each for path in GUIDES for each in commands_of(path)]
    here = [each for each in found if reason(each) is None and ON_REAL_NODES.search(each.typed)]
    return list({each.typed: each for each in here}.values())


GUIDES = PAGES[1:]
