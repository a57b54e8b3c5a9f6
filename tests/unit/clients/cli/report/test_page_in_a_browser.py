"""The report's page in headless Chromium: real clicks and keys, no message of the console, no request, no overflow.

Skipped without Playwright or without a Chromium: the one on PATH, or that of the environment variable TRIMTAB_CHROMIUM.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.clients.cli.report.browsers import CHROMIUM, LIMIT_MS, needs_chromium, opened_browser
from tests.unit.clients.cli.report.recordings import recorded, scenario
from trimtab.clients.cli.blocks import AnswerPage
from trimtab.clients.cli.plan import CommandOptions
from trimtab.clients.cli.report.charts import drain_charts
from trimtab.clients.cli.report.command import over_time, simulated
from trimtab.clients.cli.report.page import rendered
from trimtab.clients.simulation.result import result_of
from trimtab.clients.simulation.simulation import ClusterSimulation

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [*needs_chromium, pytest.mark.ci]
LONG = "general-purpose-spot-instances-of-the-data-platform-team-eu-central-1"
CLOSE_ALL = """
for (const one of document.querySelectorAll("details[open]")) one.open = false;
document.activeElement.blur();
scrollTo(0, 0);
"""
PHONE, DESKTOP = (360, 740), (1280, 900)


@pytest.fixture(scope="module")
def simulated_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[ClusterSimulation, Path]:
    """A simulation with names as long as real ones, in which nodes come and go, and its recording."""
    recording = tmp_path_factory.mktemp("report") / f"{LONG}.trimtab"
    return recorded(recording, scenario(LONG, name=LONG)), recording


@pytest.fixture(scope="module", params=["simulation", pytest.param("recording", marks=pytest.mark.nightly)])
def file(request: pytest.FixtureRequest, simulated_once: tuple[ClusterSimulation, Path]) -> Path:
    """The page of the simulation or of its recording."""
    simulation, recording = simulated_once
    is_recording = request.param == "recording"
    page = over_time(CommandOptions((recording,))) if is_recording else simulated(result_of(simulation, "defaults"))
    path = recording.with_name(f"{request.param}.html")
    path.write_text(rendered(page), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    with opened_browser(CHROMIUM) as found:
        yield found


class Opened:
    """A page with charts drawn, and what the browser said of it."""

    def __init__(self, page: "Page", file: Path) -> None:
        self.page = page
        self.said: list[str] = []
        page.set_default_timeout(LIMIT_MS)
        page.on("console", lambda message: self.said.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        page.on("request", lambda request: self._asked(request.url))
        page.goto(file.as_uri())
        page.wait_for_selector("#chart-0 .main-svg")

    def _asked(self, url: str) -> None:
        if not url.startswith(("file:", "data:")):
            self.said.append(f"request: {url}")

    def run(self, script: str) -> Any:
        return self.page.evaluate(script)


@pytest.fixture(scope="module", params=[PHONE, DESKTOP], ids=["phone", "desktop"])
def page_of_file(request: pytest.FixtureRequest, browser: "Browser", file: Path) -> Iterator[Opened]:
    """The page on a screen, opened once: its charts take seconds to draw."""
    width, height = request.param
    page = browser.new_page(viewport={"width": width, "height": height})
    found = Opened(page, file)
    yield found
    page.close()
    assert found.said == []


@pytest.fixture
def opened(page_of_file: Opened) -> Iterator[Opened]:
    """The page as it is when it has just been opened."""
    yield page_of_file
    page_of_file.page.mouse.move(0, 0)
    page_of_file.run(CLOSE_ALL)
    assert page_of_file.said == []


def test_the_page_is_as_wide_as_the_screen_and_shows_every_chart(opened: Opened) -> None:
    assert opened.run("document.documentElement.scrollWidth - innerWidth") <= 0
    charts = opened.page.locator(".chart")
    assert charts.count() == opened.page.locator(".chart .main-svg:first-child").count() >= 5


def test_no_title_of_an_axis_is_cut(opened: Opened) -> None:
    for chart in opened.page.locator(".chart").all():
        whole = chart.bounding_box()
        for title in chart.locator(".xtitle, .ytitle").all():
            box = title.bounding_box()
            assert whole is not None
            assert box is not None
            assert box["x"] >= whole["x"]
            assert box["y"] >= whole["y"]
            assert box["y"] + box["height"] <= whole["y"] + whole["height"]


def test_few_lines_of_nodes_have_whole_numbers(browser: "Browser", tmp_path: Path) -> None:
    drains = [{"node": node, "tainted": 0.0, "evicted": [1.0], "gone": 9.0} for node in "abc"]
    path = tmp_path / "page.html"
    path.write_text(
        rendered(
            AnswerPage("x", tuple(drain_charts([{"drains": drains, "scenario": {"begin": 0.0, "durationS": 60.0}}])))
        )
    )
    page = browser.new_page()
    ticks = Opened(page, path).page.locator(".ytick text").all_text_contents()
    page.close()
    assert ticks == ["0", "1", "2"]


def test_text_of_charts_is_light_on_dark_screens_and_dark_on_paper(browser: "Browser", file: Path) -> None:
    page = browser.new_page(color_scheme="dark")
    opened = Opened(page, file)

    def lightness(script: str) -> int:
        return sum(map(int, re.findall(r"\d+", opened.run(script))[:3]))

    text = "getComputedStyle(document.querySelector('#chart-0 .xtick text')).fill"
    back = "getComputedStyle(document.body).backgroundColor"
    assert (lightness(text) > 600, lightness(back) < 100) == (True, True)
    page.emulate_media(media="print")
    assert (lightness(text) < 300, lightness(back) > 700) == (True, True)
    page.close()


def test_a_click_on_a_decision_in_the_chart_opens_it_with_its_reasons(opened: Opened) -> None:
    page = opened.page
    assert page.locator("details[open]").count() == 0
    mark = page.locator("#chart-0 .points path").first
    mark.scroll_into_view_if_needed()
    box = mark.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_selector("#chart-0 .tip:not([hidden])")
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_selector("details[open] dd")
    assert page.locator("details[open]").count() == 1
    assert opened.run("document.activeElement.tagName") == "SUMMARY"


def test_a_node_of_the_map_tells_what_it_is_on_a_click_and_by_keys(opened: Opened) -> None:
    page = opened.page
    node_map = page.locator(".map").first
    cells, told = node_map.locator(".cell"), node_map.locator(".told")
    cells.first.click()
    assert told.inner_text() == cells.first.get_attribute("data-text")
    node_map.focus()
    page.keyboard.press("ArrowRight")
    assert told.inner_text() == cells.nth(1).get_attribute("data-text")


def test_decisions_open_with_only_the_keyboard(opened: Opened) -> None:
    page = opened.page
    # What keeps nodes can be opened too, and has no times and reasons.
    page.locator("details:has(dd) summary").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("details[open] dd")


def test_tables_and_regions_have_names_for_screen_readers(opened: Opened) -> None:
    tables = opened.page.locator("table")
    for number in range(tables.count()):
        # Not the text as shown: a table may be hidden until it is asked for.
        assert (tables.nth(number).locator("caption").text_content() or "").strip()
    for role in ("main", "banner"):
        assert opened.page.get_by_role(role).count() == 1
    for chart in opened.page.locator(".chart").all():
        assert (chart.get_attribute("role"), bool(chart.get_attribute("aria-label"))) == ("img", True)


@pytest.mark.parametrize("page_of_file", [DESKTOP], ids=["desktop"], indirect=True)
def test_charts_fit_on_paper_and_fill_the_screen_again(opened: Opened) -> None:
    charts = "[...document.querySelectorAll('.chart .main-svg:first-child')]"
    sizes = f"{charts}.map((one) => [one.clientWidth, one.clientHeight])"
    on_screen = opened.run(sizes)
    opened.run("dispatchEvent(new Event('beforeprint'))")
    assert opened.run(sizes) == [[660, 300]] * len(on_screen)
    assert on_screen[0][0] > 660
    opened.run("dispatchEvent(new Event('afterprint'))")
    assert opened.run(sizes) == on_screen
