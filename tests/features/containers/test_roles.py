"""Containers as keys of the roles of a job file: which role has which, and what is refused.

These tests need pylaunch.features.containers and pylaunch.features.job.
"""

import pytest

from pylaunch.cli.commands.run.start import command
from pylaunch.errors import UsageError
from pylaunch.features.job import job_file
from pylaunch.features.job.starting import flags_of, given_here, options_of_a_role
from pylaunch.model.job import Framework, JobSpec

JOB = JobSpec(("train.py",), Framework.DIRECT, "/work")


def containers(text: str, *typed: str) -> dict[str, str | None]:
    """The container of each role of a job file, which is started with the options `typed`."""
    with command.make_context("start", [*typed, "job.toml"], help_option_names=["-h", "--help"]) as context:
        job = job_file.read(text, "job.toml", (), options_of_a_role())
        defaults = given_here(context)
        flags = {role.name: flags_of(role, command, defaults) for role in job.roles}
    jobs = {name: in_job(JOB) for name, (_, in_job) in flags.items()}
    return {name: each.container.words if each.container else None for name, each in jobs.items()}


def roles(**keys: str) -> str:
    return "".join(f'[roles.{name}]\nprogram = "x"\n{own}\n' for name, own in keys.items())


OWN = 'container = "/own.sqsh"'


def test_a_role_in_an_image_leaves_the_others_bare() -> None:
    job = roles(trainer=f'{OWN}\ncontainer-mount = ["/data:/data:ro", "/a:/b"]', watcher="")
    assert containers(job) == {"trainer": "/own.sqsh with /data:/data:ro, /a:/b", "watcher": None}


def test_options_of_the_command_line_are_those_of_roles_that_have_no_such_key() -> None:
    job = roles(a="", b=OWN, c='container-mount = "/c:/c"', e="container-mount = []")
    assert containers(job, "--container", "/default", "--container-mount", "/data:/data") == {
        "a": "/default with /data:/data",
        "b": "/own.sqsh with /data:/data",
        "c": "/default with /c:/c",
        "e": "/default",
    }


@pytest.mark.parametrize(
    ("keys", "error"),
    [
        ('container-mount = "/a:/b"', "--container-mount /a:/b: the ranks have no container"),
        (f'{OWN}\ncontainer-mount = "/a"', "--container-mount /a: expected SRC:DST or SRC:DST:ro"),
        (
            'container = "./torch"',
            "--container ./torch: neither an absolute path on the nodes nor the name of an image",
        ),
        ("container = false", "container = False: expected a text, a number or a list"),
        ("container = true", "container = True: expected a text, a number or a list"),
        ('module = "yes"', "Option '--module' does not take a value."),
    ],
)
def test_a_wrong_value_is_refused_with_its_role(keys: str, error: str) -> None:
    with pytest.raises(UsageError) as refused:
        containers(roles(good="", trainer=keys))
    assert refused.value.message.removeprefix("[roles.trainer] ").startswith(error)
