"""Contract of JobSet's API with `pylaunch render k8s`.

The schema is that of the package kubeflow-trainer-api, whose models are generated from the published OpenAPI document
of JobSet and of Kubernetes. A model drops fields that it does not know, so the manifest must come back unchanged.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from pylaunch.features.render_files.files import Target, TargetOptions, render_files
from pylaunch.model.job import Framework
from tests.features.render_files.samples import SAMPLES, planned

ENDS_S = 300
MODELS = "kubeflow-trainer-api==2.3.0"
PARSE = """
import json, sys
from kubeflow_trainer_api.models.jobset_v1alpha2_job_set import JobsetV1alpha2JobSet
answers = []
for manifest in json.load(sys.stdin):
    try:
        answers.append(JobsetV1alpha2JobSet.from_dict(manifest).to_dict())
    except ValueError as error:
        answers.append(str(error))
json.dump(answers, sys.stdout)
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the models of JobSet's API."""
    directory = tmp_path_factory.mktemp("models")
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--target", str(directory))
    subprocess.run((*pip, MODELS), check=True, timeout=ENDS_S)
    return directory


def parsed(models: Path, manifests: list[dict[str, Any]]) -> list[Any]:
    """Return each manifest as the models have it, or the error of the model that refuses it."""
    env = {**os.environ, "PYTHONPATH": str(models)}
    ended = subprocess.run(
        (sys.executable, "-c", PARSE),
        input=json.dumps(manifests),
        env=env,
        capture_output=True,
        text=True,
        timeout=ENDS_S,
    )
    assert ended.returncode == 0, ended.stderr
    answers: list[Any] = json.loads(ended.stdout)
    return answers


def manifests() -> list[dict[str, Any]]:
    found = []
    for sample in SAMPLES:
        for framework in (Framework.DIRECT, Framework.JAX):
            options = TargetOptions(image="registry/train:1", image_workdir="/code")
            file = render_files(planned(sample, framework), Target.K8S, options).files[0]
            found.append(yaml.safe_load(file.text))
    return found


def test_the_schema_of_jobset_has_every_field_with_its_type(models: Path) -> None:
    sent = manifests()
    assert len(sent) == 2 * len(SAMPLES)
    assert parsed(models, sent) == sent


def test_the_schema_refuses_a_wrong_type_and_drops_an_unknown_field(models: Path) -> None:
    wrong, unknown = manifests()[:2]
    wrong["spec"]["replicatedJobs"][0]["template"]["spec"]["parallelism"] = "two"
    unknown["spec"]["replicatedJobs"][0]["template"]["spec"]["replicas"] = 2
    refused, dropped = parsed(models, [wrong, unknown])
    assert "parallelism" in refused
    assert dropped != unknown
