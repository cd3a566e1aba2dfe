"""Values of secrets that this machine knows about a run, to mask them in what leaves it."""

import json
from collections.abc import Mapping
from pathlib import Path

import msgspec

from pylaunch.inventory.load import texts_of
from pylaunch.model.plan import RunPlan
from pylaunch.model.secret import sounds_secret
from pylaunch.model.text.redaction import secrets_in


def known_secrets(plan: RunPlan, ours: Mapping[str, str]) -> set[str]:
    """Return the secret values in `ours` (the environment of this process), in the plan and in the inventory."""
    job = plan.job
    values = {value for name, value in ours.items() if sounds_secret(name) or name in job.secrets}
    values |= {value for name, value in job.env.items() if sounds_secret(name)}
    values |= set(secrets_in(json.dumps(msgspec.to_builtins(plan))))
    for source in plan.sources:
        values |= {value for text in texts_of(Path(source)).values() for value in secrets_in(text)}
    return values
