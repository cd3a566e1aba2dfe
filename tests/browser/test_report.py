"""The HTML report in a real browser: readable on a desktop and on a phone, in light and dark, and silent."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pylaunch.features.report.page.html import page
from pylaunch.model.text.redaction import Redaction
from tests.browser.headless import PROGRAM, Page, browser, is_installed
from tests.features.report import samples

pytestmark = pytest.mark.skipif(
    not is_installed(), reason=f"no {PROGRAM}: scripts/setup --for-tests installs it where the distribution has it"
)

WINDOWS = [(1280, 900), (800, 900), (400, 844)]
WINDOW_NAMES = ["desktop", "tablet", "phone"]
CONTRAST = """
(() => {
  const parse = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(c => (c /= 255) <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [.2126, .7152, .0722][i], 0);
  const behind = element => {
    for (let each = element; each; each = each.parentElement) {
      const colour = parse(getComputedStyle(each).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const low = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || element.closest('svg')) continue;
    const [a, b] = [light(parse(getComputedStyle(element).color)), light(behind(element))];
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5) low.push([ratio.toFixed(2), walker.currentNode.data.trim().slice(0, 40)]);
  }
  return low;
})()
"""
VISIBLE = """
(id => {
  const box = document.querySelector(id).getBoundingClientRect();
  return box.top >= 0 && box.bottom <= innerHeight && box.width > 0 && box.right <= innerWidth;
})
"""


WRAPPED_LABELS = """
[...document.querySelectorAll('.axis span')].filter(each => each.getClientRects().length && each.getBoundingClientRect()
  .height > 1.6 * parseFloat(getComputedStyle(each).fontSize)).map(each => each.innerText)
"""
"""Labels of an axis with more than one line."""


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browser(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Files of the sample reports."""
    directory = tmp_path_factory.mktemp("reports")
    files = {}
    for name, content in (("large", samples.large()), ("hostile", samples.hostile())):
        files[name] = directory / f"{name}.html"
        files[name].write_text(page(content, Redaction().hide), encoding="utf-8")
    return files


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", WINDOWS, ids=WINDOW_NAMES)
@pytest.mark.parametrize("name", ["large", "hostile"])
def test_a_report_is_readable_and_silent(
    window: Page, reports: dict[str, Path], name: str, size: tuple[int, int], dark: bool
) -> None:
    window.show(reports[name], *size, dark=dark)
    window.value("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert window.value("document.documentElement.scrollWidth") <= size[0]
    assert window.value(CONTRAST) == []
    background = window.value("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(15, 19, 23)" if dark else "rgb(255, 255, 255)")
    assert window.problems == []
    assert window.requests == [reports[name].as_uri()]
    assert window.value(WRAPPED_LABELS) == []
    assert window.value("document.title") == "run 7f3a9c01: failed"
    assert window.value("document.scripts.length") == 0


@pytest.mark.parametrize("size", WINDOWS, ids=WINDOW_NAMES)
def test_the_verdict_and_the_next_command_are_in_the_first_window(
    window: Page, reports: dict[str, Path], size: tuple[int, int]
) -> None:
    window.show(reports["large"], *size)
    assert window.value(f"{VISIBLE}('#verdict h1')")
    assert window.value(f"{VISIBLE}('#verdict code')")
    assert "was killed by SIGKILL" in window.value("document.querySelector('h1').innerText")


def test_every_link_leads_to_a_section(window: Page, reports: dict[str, Path]) -> None:
    window.show(reports["large"], 1280, 900)
    dead = "[...document.querySelectorAll('a')].filter(a => !document.querySelector(a.getAttribute('href'))).length"
    assert window.value(dead) == 0
    links = window.value("[...document.querySelectorAll('nav a')].map(each => each.getAttribute('href'))")
    sections = window.value("[...document.querySelectorAll('section')].map(each => '#' + each.id)")
    assert len(links) == 11
    assert set(sections) - set(links) == {"#", "#verdict", "#missing"}


def test_bars_have_the_places_of_their_times(window: Page, reports: dict[str, Path]) -> None:
    """The failed rank's bar ends at its mark, and both are at the end of the axis."""
    window.show(reports["large"], 1280, 900)
    places = window.value(
        "[...document.querySelectorAll('.row.cause .failed, .row.cause .mark.failure')]"
        ".map(each => Math.round(each.getBoundingClientRect().right))"
    )
    assert len(places) == 2
    assert abs(places[0] - places[1]) <= 3
    axis = window.value("document.querySelector('.axis').getBoundingClientRect().right")
    assert abs(places[0] - axis) <= 6


def test_paper_shows_what_is_folded_on_a_screen(window: Page, reports: dict[str, Path]) -> None:
    window.show(reports["large"], 800, 1000)
    folded = "document.querySelector('#ranks > details:last-of-type pre').checkVisibility()"
    on_screen = window.value(folded)
    window.call("Emulation.setEmulatedMedia", media="print")
    assert (on_screen, window.value(folded)) == (False, True)
    clipped = (
        "[...document.querySelectorAll('pre, .scroll')].filter(each => getComputedStyle(each).overflow !== 'visible')"
    )
    assert window.value(f"{clipped}.length") == 0
    assert window.value("getComputedStyle(document.querySelector('.legend i')).printColorAdjust") == "exact"


def test_paper_is_white_in_a_dark_browser(window: Page, reports: dict[str, Path]) -> None:
    window.show(reports["large"], 800, 1000, dark=True)
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    window.call("Emulation.setEmulatedMedia", media="print", features=dark)
    assert window.value("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
