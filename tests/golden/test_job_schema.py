"""The JSON schema of job files, for editors. To write it: UPDATE_GOLDEN=1 pytest tests/golden."""

import json
import tomllib
from pathlib import Path
from typing import Any, get_args

import click
import jsonschema  # type: ignore[import-untyped]
import pytest

from pylaunch.cli.commands.run.start import command
from pylaunch.features.job.job_file import NAME, OWN_KEYS, OnFailure, ReadyBy
from pylaunch.features.job.starting import options_of_a_role
from tests.golden.files import golden

ROOT = Path(__file__).parents[2]
SCHEMA = ROOT / "docs/reference/job.schema.json"
EXAMPLES = sorted(ROOT.glob("examples/*/job.toml"))
WORD = {"type": "string", "minLength": 1}
WORDS = {"anyOf": [WORD, {"type": "array", "items": WORD, "minItems": 1}]}
COUNT = {"type": "integer", "minimum": 1}
PORT = {"type": "integer", "minimum": 0, "maximum": 65535}
OWN: dict[str, Any] = {
    "program": WORDS,
    "nodes": COUNT,
    "hosts": WORD,
    "replicas": COUNT,
    "shared": {"type": "boolean"},
    "devices": {"type": "boolean"},
    "ports": {"anyOf": [{"type": "array", "items": WORD}, {"type": "object", "additionalProperties": PORT}]},
    "after": WORDS,
    "ready": {"type": "string", "pattern": f"^({'|'.join(get_args(ReadyBy))}):."},
    "ready-timeout": {"type": "number", "exclusiveMinimum": 0},
    "on-failure": {"enum": list(get_args(OnFailure))},
    "service": {"type": "boolean"},
}


def of_option(option: click.Option) -> dict[str, Any]:
    """The values of an option of `start` as a key."""
    if option.is_flag:
        return {"type": "boolean"}
    if isinstance(option.type, click.Choice):
        return {"enum": list(option.type.choices)}
    if option.multiple:
        return {"type": ["string", "array", "object"]}
    kinds = {"integer": "integer", "float": "number"}
    return {"type": kinds.get(option.type.name, ["string", "number"])}


def schema() -> dict[str, Any]:
    names = options_of_a_role()
    options = [each for each in command.params if isinstance(each, click.Option) and each.name in names]
    keys = {
        (each.name or "").replace("_", "-"): {"description": each.help, **of_option(each)}
        for each in sorted(options, key=lambda option: option.name or "")
    }
    role = {"type": "object", "required": ["program"], "additionalProperties": False, "properties": {**OWN, **keys}}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Job of several roles",
        "type": "object",
        "required": ["roles"],
        "additionalProperties": False,
        "properties": {
            "name": WORD,
            "roles": {
                "type": "object",
                "minProperties": 1,
                "propertyNames": {"pattern": f"^{NAME.pattern}$"},
                "additionalProperties": role,
            },
        },
    }


def test_the_schema_has_the_keys_of_the_code() -> None:
    assert OWN.keys() == set(OWN_KEYS)
    text = json.dumps(schema(), indent=1) + "\n"
    assert text == golden(SCHEMA, text)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_the_examples_are_valid_and_an_unknown_key_is_not(path: Path) -> None:
    job = tomllib.loads(path.read_text())
    jsonschema.validate(job, json.loads(SCHEMA.read_text()))
    next(iter(job["roles"].values()))["gpus_per_node"] = 8
    with pytest.raises(jsonschema.ValidationError, match="gpus_per_node"):
        jsonschema.validate(job, json.loads(SCHEMA.read_text()))
