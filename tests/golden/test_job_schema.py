"""The JSON schema of job files, for editors, has the keys and the values of the code."""

import json
import tomllib
from pathlib import Path
from typing import get_args

import jsonschema  # type: ignore[import-untyped]
import pytest

from pylaunch.cli.commands.run.start import OPTIONS
from pylaunch.features.job.job_file import OWN_KEYS, OnFailure
from pylaunch.terminal.option import InJobFile
from tests.documents import ROOT

SCHEMA = json.loads((ROOT / "docs/reference/job.schema.json").read_text())


def test_the_schema_has_the_keys_of_the_code() -> None:
    keys = SCHEMA["properties"]["roles"]["additionalProperties"]["properties"]
    options = {each.name.replace("_", "-"): each for each in OPTIONS if each.in_job_file is InJobFile.ROLE}
    assert keys.keys() == {*OWN_KEYS, *options}
    assert keys["on-failure"] == {"enum": list(get_args(OnFailure))}
    for name, option in options.items():
        assert keys[name]["description"] == option.help
        if option.choices:
            assert keys[name]["enum"] == list(option.choices)


@pytest.mark.parametrize("path", sorted(ROOT.glob("examples/*/job.toml")), ids=lambda path: path.parent.name)
def test_the_examples_are_valid_and_an_unknown_key_is_not(path: Path) -> None:
    job = tomllib.loads(path.read_text())
    jsonschema.validate(job, SCHEMA)
    next(iter(job["roles"].values()))["gpus_per_node"] = 8
    with pytest.raises(jsonschema.ValidationError, match="gpus_per_node"):
        jsonschema.validate(job, SCHEMA)
