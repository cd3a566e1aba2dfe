"""The Python environment of the ranks, which must be the same on all hosts."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from pylaunch.agent.probe.readers.hosts import python_env as container_readers
from pylaunch.agent.probe.readers.hosts import python_env as python_env_readers
from pylaunch.agent.probe.registry import Reader
from pylaunch.agent.shared.container_engines import engines_for
from pylaunch.checks.check import Asks, AtStart, Check
from pylaunch.checks.survey import Survey, Wanted
from pylaunch.model.cluster import Host
from pylaunch.model.diagnosis.finding import Finding, Severity
from pylaunch.model.diagnosis.majority import Rule, majority, odd_ones, shown
from pylaunch.model.hostset import fold
from pylaunch.model.text.argv import quoted

MUST_AGREE = re.compile(
    r"torch|jax|jaxlib|accelerate|deepspeed|nvidia-nccl-cu\d+|nvidia-cuda-runtime(-cu\d+)?|jax-cuda\d+-\w+|triton|numpy|ray|"
    r"vllm|sglang"
)
"""Distributions whose versions ranks must share: ranks exchange data through them, or load what others saved."""

SHOWN_PACKAGES = 8

_PROVISION = "pylaunch provision --roles python_env --limit {hosts}"


def _python(survey: Survey) -> Iterable[Finding]:
    found = survey.measured(python_env_readers.python)
    for host, each in found.items():
        if each is None:
            text = f"no interpreter for the ranks at {survey.wanted.pythons[host]}"
            provisioned = survey.wanted.pythons[host].startswith(survey.cluster[host].env_root + "/")
            fix, role = (_PROVISION, "python_env") if provisioned else ("choose another with --python", "")
            yield Finding("python_env.python", Severity.FAIL, (host,), text, fix, role)
    versions = {host: version for host, version in found.items() if version is not None}
    yield from odd_ones(Rule("python_env.python", Severity.FAIL, "interpreter", _PROVISION, "python_env"), versions)


def _libraries(survey: Survey) -> Iterable[Finding]:
    found = {host: each for host, each in survey.measured(python_env_readers.libraries).items() if each is not None}
    # Report an interpreter without packages here; python_env.python reports a missing interpreter.
    bare = (host for host, each in survey.measured(python_env_readers.libraries).items() if each is None)
    runs = survey.measured(python_env_readers.python)
    installed = {host: each["distributions"] for host, each in found.items()}
    installed |= {host: {} for host in bare if runs.get(host) is not None}
    names = sorted({name for each in installed.values() for name in each if MUST_AGREE.fullmatch(name)})
    reported: set[str] = set()
    for name in names:
        rule = Rule("python_env.libraries", Severity.FAIL, name, _PROVISION, "python_env")
        for finding in odd_ones(rule, {host: each.get(name, "") for host, each in installed.items()}):
            reported |= set(finding.hosts)
            yield finding
    yield from _environments(
        {host: each["digest"] for host, each in found.items() if host not in reported}, found, installed
    )


def _environments(
    digests: Mapping[str, str], found: Mapping[str, Any], installed: Mapping[str, Mapping[str, str]]
) -> Iterable[Finding]:
    """Yield findings for hosts whose environments differ only in packages that may differ."""
    division = majority({host: each["digest"] for host, each in found.items()})
    for digest, hosts in division.odd:
        odd = tuple(host for host in hosts if host in digests)
        if not odd:
            continue
        other = division.usual_hosts[0] if division.usual_hosts else next(host for host in found if host not in hosts)
        evidence = _differences(installed[odd[0]], installed[other], other)
        text = f"the Python environment ({shown(digest)}) is not that of {fold(division.usual_hosts or (other,))}"
        yield Finding("python_env.libraries", Severity.WARN, odd, text, _PROVISION, "python_env", evidence)


def _differences(here: Mapping[str, str], there: Mapping[str, str], other: str) -> tuple[str, ...]:
    names = sorted(name for name in {*here, *there} if here.get(name) != there.get(name))
    lines = [f"{name} {here.get(name, 'none')}, {other} has {there.get(name, 'none')}" for name in names]
    if not lines:
        return ("the same versions from other builds, or files recorded otherwise",)
    more = [f"{len(lines) - SHOWN_PACKAGES} more"] if len(lines) > SHOWN_PACKAGES else []
    return (*lines[:SHOWN_PACKAGES], *more)


def _ask_about(reader: Reader[str, Any]) -> Asks:
    return lambda host, wanted: reader.ask(wanted.pythons[host.name]) if host.name in wanted.pythons else {}


CHECKS = (
    Check(
        "python_env.python",
        "interpreter of the ranks",
        "Without it no rank starts; with another version, pickles, bytecode and compiled extensions are incompatible.",
        "it exists, runs, and has the version of the majority",
        Severity.FAIL,
        _ask_about(python_env_readers.python),
        _python,
        at_start=AtStart.REPORTED,
    ),
    Check(
        "python_env.libraries",
        "versions of torch, CUDA, NCCL, JAX, accelerate, DeepSpeed and the rest",
        "Ranks with other versions of NCCL or torch fail in the first collective, or hang in it.",
        "the majority, from the records of installed distributions (nothing is imported): the named ones fail,"
        " any other difference warns",
        Severity.FAIL,
        _ask_about(python_env_readers.libraries),
        _libraries,
        at_start=AtStart.REPORTED,
    ),
)


_ID = "containers.engine"


def _engine(survey: Survey) -> Iterable[Finding]:
    image = survey.wanted.container
    readings = survey.measured(container_readers.engine)
    brings = f"pylaunch push IMAGE {quoted((image,))}" if image.startswith("/") else "podman load or docker load"
    for host, found in readings.items():
        if not found["engine"]:
            text = f"{' or '.join(engines_for(image))} not found, which runs image {image}"
            yield Finding(_ID, Severity.FAIL, (host,), text, "install one on {hosts}: pylaunch help containers")
        elif found["refused"]:
            text = f"{found['engine']} does not run image {image}: {found['refused']}"
            yield Finding(_ID, Severity.FAIL, (host,), text, f"as that user on {{hosts}}: {brings}")
    digests = {host: found["digest"] for host, found in readings.items() if found["digest"]}
    yield from odd_ones(Rule(_ID, Severity.FAIL, f"image {image}", f"one image for all of them: {brings}"), digests)


def _ask(host: Host, wanted: Wanted) -> dict[str, Any]:
    return container_readers.engine.ask(wanted.container) if wanted.container else {}


CONTAINER_CHECKS = (
    Check(
        _ID,
        "an engine runs the image of the ranks, and the image is the same",
        "A node that cannot make the container refuses the start.",
        "with --container: apptainer, enroot, podman or docker runs a shell of the image as our user, and all"
        " hosts have the same id of the image, or the same size of its file",
        Severity.FAIL,
        _ask,
        _engine,
        silence=Severity.FAIL,
        at_start=AtStart.AGENT,
    ),
)
