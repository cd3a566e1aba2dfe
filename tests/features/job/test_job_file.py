import pytest

from pylaunch.errors import UsageError
from pylaunch.features.job.job_file import ReadyTest, filled, read
from pylaunch.features.job.starting import read_job

OPTIONS = ("nproc_per_node", "framework", "env", "max_restarts")
JOB = """
[roles.rollout]
program = "serve.py --port {ports.http}"
replicas = 2
nodes = 1
ports = ["http"]
ready = "http:http/health"
service = true
max-restarts = 3

[roles.trainer]
program = ["train.py", "{roles.rollout.endpoints}"]
after = "rollout"
env = { LR = "3" }
"""


def errors(text: str, *sets: str) -> tuple[str, ...]:
    with pytest.raises(UsageError) as caught:
        read(text, "job.toml", sets, OPTIONS)
    return (caught.value.message, *caught.value.evidence)


def test_a_job_file_that_is_not_there_is_an_error_with_a_next_step() -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file or directory") as caught:
        read_job(("absent.toml",))
    assert caught.value.hint == "what a job file has: pylaunch help roles"


def role(text: str) -> str:
    return f'[roles.a]\nprogram = "x"\n{text}\n'


def test_a_role_has_its_own_keys_and_options_of_start() -> None:
    job = read(JOB, "runs/rl.toml", (), OPTIONS)
    server, trainer = job.roles
    assert job.name == "rl"
    assert (server.program, server.replicas, server.ports, server.service) == (
        ("serve.py", "--port", "{ports.http}"), 2, ("http",), True,
    )  # fmt: skip
    assert server.ready == ReadyTest("http", "http", "/health")
    assert server.options == {"max_restarts": 3}
    assert (trainer.after, trainer.options, trainer.nodes) == (("rollout",), {"env": {"LR": "3"}}, None)


def test_values_of_the_command_line_replace_those_of_the_file() -> None:
    sets = ("trainer.nodes=4", "trainer.env.LR=1e-3", 'rollout.ports=["http", "grpc"]')
    job = read(JOB, "job.toml", sets, OPTIONS)
    rollout, trainer = job.roles
    assert trainer.nodes == 4
    assert trainer.options["env"] == {"LR": 0.001}
    assert rollout.ports == ("http", "grpc")


def test_all_errors_are_reported_together_with_their_role() -> None:
    text = JOB.replace("after =", "aftr =").replace("replicas = 2", "replicas = 0").replace("http:http", "http:web")
    assert errors(text) == (
        "job.toml: 3 errors",
        "[roles.rollout] replicas = 0: expected a whole number from 1 to 512",
        "[roles.rollout] ready = 'http:web/health': web is no number, and none of the role's ports (http)",
        "[roles.trainer] aftr: unknown key; did you mean after?",
    )


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[roles.a\n", "job.toml: Expected ']'"),
        ("", "no role: a job has at least one table [roles.NAME]"),
        ("colour = 1\n" + role(""), "colour: expected name and [roles.NAME]"),
        ("[roles.A]\n", "[roles.A] expected a name of lower-case letters, digits, - and _, at most 31, a letter first"),
        (role('after = "b"'), "[roles.a] after = 'b': no such role"),
        (role('after = "b"') + '[roles.b]\nprogram = "y"\nafter = "a"\n', "after: a after b after a is a circle"),
        (role("service = true"), "every role is a service, so the job would never end: one role must end on its own"),
        (role('ready = "log:up"'), "[roles.a] ready = 'log:up': expected tcp:PORT or http:PORT/PATH"),
        (role("ports = { a = 7000 }"), "[roles.a] ports = {'a': 7000}: expected names, such as [\"http\"]"),
        (role('ports = ["A"]'), "[roles.a] ports: 'A': expected a name of lower-case letters"),
        (role("nodes = true"), "[roles.a] nodes = True: expected a whole number from 1 to 100000"),
        (role("hosts = 5"), "[roles.a] hosts = 5: expected a text"),
        (role("ready-timeout = 0"), "[roles.a] ready-timeout = 0: expected seconds, at most 604800"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_named_with_what_is_expected(text: str, error: str) -> None:
    assert any(each.startswith(error) for each in errors(text))


def test_only_places_of_the_job_are_filled_in() -> None:
    words = ("--port={ports.http}", "{x}", '{"a": {replica}}')
    assert filled(words, {"ports.http": "29501", "replica": "1"}, "") == ("--port=29501", "{x}", '{"a": 1}')


def test_a_name_that_a_terminal_would_obey_is_refused_and_shown_as_an_escape() -> None:
    found = errors('name = "\\u001b[2J"\n"\\u001b[2J" = 1\n' + role(""))
    assert any("expected at most 63 letters" in each for each in found)
    assert "\x1b" not in "".join(found)
