"""Ends of ranks get the class of the text that the rank wrote; the text changes nobody's blame."""

from dataclasses import replace

import pytest

from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Container, Framework, JobSpec
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.plan import plan_run
from pylaunch.protocol.node_evidence import RankEnd
from pylaunch.store.content import signatures
from pylaunch.verdict.failure_evidence import Evidence
from pylaunch.verdict.recognised_ends import with_classes
from pylaunch.verdict.verdict import judge
from tests.unit.verdict.evidence_sets import RANKS, SETS, EvidenceSet

CATALOGUE = signatures()
FULL = "OSError: [Errno 28] No space left on device: '/ckpt/step_400'"
TRACEBACK = ("Traceback (most recent call last):", '  File "/app/train.py", line 88, in <module>', "    main()")
GONE = "FileNotFoundError: [Errno 2] No such file or directory"
CHAINED = (*TRACEBACK, FULL, "", "During handling of the above exception, another exception occurred:", "", *TRACEBACK)


def outcome_of(failed: RankEnd) -> Outcome:
    """Return the outcome of a run in which rank 1 on n2 failed as `failed` says."""
    case = next(each for each in SETS if each.name == "exception")
    found = outcome_on(replace(case.evidence, ends=(failed, *case.evidence.ends[1:])))
    assert found is not None
    return with_classes(found, CATALOGUE)


def outcome_on(evidence: Evidence) -> Outcome | None:
    """Return the outcome of a failed run as its verdict has it; None without a failure."""
    if (found := judge(evidence)) is None:
        return None
    return Outcome(
        Status.FAILED, found.reason, 110.0, evidence.ends, {}, (), found.shown, found.named, causes=found.causes
    )


def end(error: str = "", lines: tuple[str, ...] = (), code: int = 1, symptom: str = "") -> RankEnd:
    return RankEnd(1, "n2", code, None, 100.0, stopped=False, last_lines=lines, error=error, symptom=symptom)


@pytest.mark.parametrize(
    ("failed", "identifier", "page"),
    [
        (end(FULL), "storage/storage-full", "errors-files"),
        (end(lines=(*TRACEBACK, FULL)), "storage/storage-full", "errors-files"),
        (end("RuntimeError: lost", (*CHAINED, "RuntimeError: lost")), "storage/storage-full", "errors-files"),
        (end("ModuleNotFoundError: No module named 'flash_attn'"), "rank-failed/import-path", "errors-python"),
        (end("OSError: [Errno 24] Too many open files"), "rank-failed/nofile", "errors-limits"),
        (end(GONE, ("[rank1]: Traceback (most recent call last):", '[rank1]:   File "/app/train.py", line 7, in f',
                    "[rank1]:     print(os.getcwd())", "[rank1]:           ^^^^^^^^^", f"[rank1]: {GONE}")),
         "rank-failed/workdir-removed", "errors-files"),
        (end("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "
             "79.15 GiB of which 1.00 GiB is free. Of the allocated memory 77.00 GiB is allocated by PyTorch"),
         "out-of-memory/gpu-memory", "errors-memory"),
    ],
)  # fmt: skip
def test_a_cause_has_the_class_of_its_text(failed: RankEnd, identifier: str, page: str) -> None:
    found = outcome_of(failed)
    (cause, *_) = found.causes
    assert (cause.identifier, cause.page) == (identifier, page)
    assert cause.named == found.named
    assert cause.question == CATALOGUE.causes[cause.text_class].sure
    assert cause.hint


@pytest.mark.parametrize(
    ("error", "text_class"),
    [
        ("torch.AcceleratorError: CUDA error: an illegal memory access was encountered", "gpu-unexplained"),
        ("RuntimeError: DataLoader worker (pid(s) 4242) exited unexpectedly", "dataloader-worker"),
    ],
)
def test_a_text_with_several_causes_leaves_the_kind_and_asks_the_question_of_its_class(
    error: str, text_class: str
) -> None:
    (cause, *_) = outcome_of(end(error)).causes
    asked = CATALOGUE.causes[text_class]
    assert (cause.text_class, cause.question) == ("", asked.sure)
    assert cause.hint
    assert cause.page == f"errors-{asked.page}"


def test_the_next_step_is_a_command_that_knows_the_host_or_the_first_repair() -> None:
    assert outcome_of(end(FULL)).causes[0].hint == "pylaunch check --only storage,kernel --limit n2"
    memory = outcome_of(end("OSError: [Errno 12] Cannot allocate memory")).causes[0]
    assert (memory.identifier, memory.hint) == ("out-of-memory/host-oom", CATALOGUE.causes["host-oom"].fix[0])


@pytest.mark.parametrize(
    "failed",
    [
        end("ValueError: loss is NaN"),
        end("ValueError: loss is NaN", (*TRACEBACK, FULL, "step 9", *TRACEBACK, "ValueError: loss is NaN")),
        end("ValueError: loss is NaN", (*TRACEBACK, FULL, "ValueError: loss is NaN", "exit")),
        end(code=3),
        end("RuntimeError: DataLoader worker (pid 4242) is killed by signal: Killed."),
    ],
    ids=[
        "own exception",
        "an earlier exception that it caught",
        "and output after its own",
        "exit code alone",
        "a text that only suggests memory",
    ],
)
def test_a_failure_that_no_signature_explains_stays_as_it_is(failed: RankEnd) -> None:
    (cause, *_) = outcome_of(failed).causes
    assert (cause.identifier, cause.page, cause.hint) == ("rank-failed", "", "")


@pytest.mark.parametrize(
    ("job_python", "host_python", "hint"),
    [
        ("/usr/bin/python3", None, "install the package for /usr/bin/python3 on every host; "),
        (None, "/opt/conda/bin/python", "install the package for /opt/conda/bin/python on every host; "),
        (None, None, "add the package to requirements.txt, then: pylaunch env lock"),
    ],
)
def test_the_hint_for_a_missing_module_names_the_python_that_lacks_it(
    job_python: str | None, host_python: str | None, hint: str
) -> None:
    cluster = Cluster((Host("n1", "10.0.0.1"), Host("n2", "10.0.0.2", python=host_python)))
    plan = plan_run(cluster, JobSpec(("a.py",), Framework.DIRECT, "/", python=job_python), "7f3a9c01")
    before = outcome_of(end("ModuleNotFoundError: No module named 'flash_attn'"))
    assert with_classes(before, CATALOGUE, plan).causes[0].hint.startswith(hint)
    inside = replace(plan, job=replace(plan.job, container=Container("train:1")))
    in_image = "install the package in the image train:1; "
    assert with_classes(before, CATALOGUE, inside).causes[0].hint.startswith(in_image)


def test_ranks_that_fail_alike_get_the_class_of_their_text_and_none_is_named() -> None:
    ends = tuple(
        RankEnd(
            rank, f"n{rank + 1}", 1, None, 100.0, stopped=False, error=f"ModuleNotFoundError: No module named '{name}'"
        )
        for rank, name in enumerate(("flash_attn",) * 3)
    )
    found = outcome_on(Evidence(RANKS, ends))
    assert found is not None
    after = with_classes(found, CATALOGUE).causes[0]
    assert (after.identifier, after.named) == ("rank-failed/import-path", None)
    mixed = outcome_on(Evidence(RANKS, (ends[0], replace(ends[1], error="ValueError: x"), ends[2])))
    assert mixed is not None
    assert with_classes(mixed, CATALOGUE).causes[0].identifier == "rank-failed"


@pytest.mark.parametrize("case", SETS, ids=lambda case: case.name)
def test_classes_change_no_name_and_no_confidence(case: EvidenceSet) -> None:
    if (before := outcome_on(case.evidence)) is None:
        return
    after = with_classes(before, CATALOGUE)
    kept = [(each.named, each.confidence, each.reason, each.evidence) for each in before.causes]
    assert [(each.named, each.confidence, each.reason, each.evidence) for each in after.causes] == kept
    assert replace(after, causes=before.causes) == before
