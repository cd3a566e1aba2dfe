"""Python in README.md, the guides and references: it compiles, and what a reader can copy alone runs."""

from pathlib import Path
from unittest import mock

import pytest

from pylaunch import runtime
from tests.documented_commands import ROOT, python_in

PAGES = {path.name: path for path in (ROOT / "README.md", *sorted(ROOT.glob("docs/*/*.md"))) if python_in(path)}


@pytest.mark.parametrize("page", PAGES.values(), ids=list(PAGES))
def test_python_of_a_page_compiles(page: Path) -> None:
    for block in python_in(page):
        compile(block, page.name, "exec")


def test_the_pages_with_python_are_known() -> None:
    """Those of lab.md, python.md and first-cluster.md run: tests/lab/test_lab_life.py, tests/starts/test_python_api.py
    and test_guides.py."""
    assert set(PAGES) == {"first-cluster.md", "lab.md", "python.md", "ray.md", "runtime.md"}


def test_the_driver_of_the_guide_to_ray_asks_the_cluster_for_its_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    """Ray is not installed: the driver of examples/ was run with it."""
    (source,) = python_in(PAGES["ray.md"])
    ray = mock.Mock(nodes=lambda: [{}, {}], cluster_resources=lambda: {"CPU": 4.0})
    with mock.patch.dict("sys.modules", ray=ray):
        exec(source, {})
    ray.init.assert_called_once_with()
    assert capsys.readouterr().out == "2 nodes {'CPU': 4.0}\n"


def test_the_loop_of_the_library_calls_what_it_has() -> None:
    (source,) = python_in(PAGES["runtime.md"])
    library = mock.create_autospec(runtime)
    library.main_process_first.return_value = mock.MagicMock()
    script = source.replace("import torch\nfrom pylaunch import runtime\n", "")
    assert script != source
    own = {name: mock.Mock() for name in ("train", "download", "save")}
    exec(script, {"runtime": library, "batches": [1, 2], **own})
    assert library.step.call_args == mock.call(1, total=2)
    assert own["save"].call_count == own["download"].call_count == 1
