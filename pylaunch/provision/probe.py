"""The questions of provisioning, put to every host by the one probe, and the facts in what they answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pylaunch.model.cluster import Cluster
from pylaunch.probe import ask as probe_ask
from pylaunch.probe.ask import Answered, NoPython, Unreachable, ask, program
from pylaunch.provision.facts import Facts, parse_facts

_READERS = {
    "gpus": ("probe.gpu", "gpu_fact"),
    "altered": ("probe.altered", "altered_files"),
    "portraits": ("probe.host_facts", "portrait_fact"),
    "communications": ("shared.interfaces", "fact"),
    "locks": ("probe.package_lock", "holder"),
}
"""Subjects that facts.py does not read by itself: the module of the agent and the function that do."""

Answer = Facts | Unreachable | NoPython


def probe(
    cluster: Cluster,
    asked: Mapping[str, Mapping[str, Sequence[Any]]],
    *,
    on_answer: Callable[[str, Answer], None] | None = None,
    sudo_password: str | None = None,
) -> dict[str, Answer]:
    """The answer of every host of `cluster` to its own questions (host → subject → questions).

    `sudo_password` is for what root alone can see; it travels inside the program, which hosts read from a pipe.
    """
    modules = _modules(asked.values())
    programs = {name: program(modules, _last_words(asked[name], sudo_password)) for name in cluster.names}

    def understood(name: str, answered: Answered | Unreachable | NoPython) -> Answer:
        if isinstance(answered, Unreachable | NoPython):
            return answered
        return probe_ask.understood(answered, lambda answer: parse_facts(asked[name], answer))

    def tell(name: str, answered: Answered | Unreachable | NoPython) -> None:
        if on_answer is not None:
            on_answer(name, understood(name, answered))

    return {name: understood(name, answered) for name, answered in ask(cluster, programs, on_answer=tell).items()}


def _modules(asked: Iterable[Mapping[str, Sequence[Any]]]) -> tuple[str, ...]:
    """What the probes need for all that is asked: every line costs every host the time to compile it."""
    subjects = {subject for questions in asked for subject in _READERS if questions.get(subject)}
    return ("probe.facts", *(module for subject, (module, _) in _READERS.items() if subject in subjects))


def _last_words(questions: Mapping[str, Sequence[Any]], sudo_password: str | None) -> str:
    also = [(subject, *reader) for subject, reader in _READERS.items() if questions.get(subject)]
    readers = ", ".join(f"{subject!r}: sys.modules['pylaunch.agent.{module}'].{name}" for subject, module, name in also)
    password = sudo_password if questions.get("reports") or questions.get("sshd") else None
    return f'sys.modules["pylaunch.agent.probe.facts"].main({json.dumps(questions)!r}, {{{readers}}}, {password!r})'
