"""The page of the loop in headless Chromium: real clicks and keys, hostile names, a loop that goes away, many nodes.

Skipped without Playwright or without a Chromium: the one on PATH, or that of the environment variable TRIMTAB_CHROMIUM.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.builders.screens import many, planned, renamed, status_of
from tests.unit.clients.cli.report.browsers import CHROMIUM, LIMIT_MS, needs_chromium, opened_browser
from trimtab.clients.cli.answers.answer import PlanAnswer
from trimtab.clients.cli.top.feed import Picture
from trimtab.clients.cli.top.web import LastPicture, WebPort
from trimtab.common.rpc.port_security import PortSecurity

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [*needs_chromium, pytest.mark.ci]
HOSTILE = '<img src=x onerror="document.title=1"><script>document.title=2</script>'
PHONE, DESKTOP = (390, 740), (1280, 900)


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    with opened_browser(CHROMIUM) as found:
        yield found


class Served:
    """The page of a plan, opened, and what the browser said of it."""

    def __init__(self, page: "Page", port: WebPort, last: LastPicture) -> None:
        self.page, self.port, self.last = page, port, last
        self.said: list[str] = []
        page.set_default_timeout(LIMIT_MS)
        page.on("console", lambda message: self.said.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        page.on("request", lambda request: self._asked(request.url))
        page.goto(f"http://{port.address}/")
        page.wait_for_selector(f"{GRID} tbody tr")

    def _asked(self, url: str) -> None:
        if not url.startswith((f"http://{self.port.address}/", "data:")):
            self.said.append(f"request: {url}")

    def names(self) -> list[str]:
        """Return the names of the nodes shown."""
        return self.page.locator(f"{GRID} tbody th").all_text_contents()

    def see(self) -> None:
        """Make one more round, and wait until the page has it."""
        assert self.last.picture is not None
        self.last.show(replace(self.last.picture))
        self.page.wait_for_selector(f"body[data-version='{self.last.version}']")


GRID = ".grid-of-nodes"


@contextmanager
def served(browser: "Browser", answer: PlanAnswer, size: tuple[int, int] = DESKTOP) -> Iterator[Served]:
    last = LastPicture()
    last.show(Picture(answer, status_of(), "shop"))
    with WebPort("127.0.0.1:0", last, PortSecurity()) as port:
        page = browser.new_page(viewport={"width": size[0], "height": size[1]})
        try:
            yield Served(page, port, last)
        finally:
            page.close()


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_the_page_shows_the_plan_and_is_as_wide_as_the_screen(browser: "Browser", size: tuple[int, int]) -> None:
    with served(browser, planned(), size) as found:
        assert found.page.title() == "shop: trimtab top"
        assert found.names() == ["a-1", "a-2", "a-3", "b-1", "b-2"]
        text = found.page.locator("body").inner_text()
        for part in ("2,555", "draining: 3 of 7 pods gone", "the cloud refused", "Plan of 2026-03-01 00:00:00 UTC"):
            assert part in text
        assert found.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        assert found.said == []


def test_what_was_typed_and_sorted_stays_when_the_next_plan_is_loaded(browser: "Browser") -> None:
    with served(browser, planned()) as found:
        title = found.page.locator(GRID).get_by_role("button", name="cpu")
        title.click()
        assert found.names()[:2] == ["b-2", "a-1"]
        title.click()
        assert found.names()[-2:] == ["a-1", "b-2"]
        found.see()
        assert found.names()[-2:] == ["a-1", "b-2"]
        search = found.page.get_by_label("Search")
        search.fill("pool-b DRAIN")
        assert found.names() == ["b-1"]
        search.blur()
        found.see()
        assert (found.names(), search.input_value()) == (["b-1"], "pool-b DRAIN")
        assert found.said == []


def test_a_page_is_not_loaded_again_while_somebody_types(browser: "Browser") -> None:
    with served(browser, planned()) as found:
        found.page.get_by_label("Search").fill("a-")
        assert found.last.picture is not None
        found.last.show(replace(found.last.picture))
        found.page.wait_for_timeout(2500)
        assert found.page.get_by_label("Search").evaluate("one => one === document.activeElement")
        assert found.names() == ["a-1", "a-2", "a-3"]


def test_the_name_of_a_node_leads_to_its_explanation(browser: "Browser") -> None:
    with served(browser, planned()) as found:
        found.page.get_by_role("link", name="a-2").click()
        found.page.get_by_text("Pod default/bare has no controller").wait_for()
        assert found.page.title() == "Why a-2 goes or stays"
        assert found.said == []


def test_names_are_text_and_never_markup(browser: "Browser") -> None:
    with served(browser, renamed(HOSTILE)) as found:
        assert HOSTILE in found.names()
        found.page.get_by_role("link", name="onerror").click()
        found.page.get_by_text("of node group pool-b").wait_for()
        assert "<script>" in found.page.locator("body").inner_text()
        assert found.page.locator("img").count() == 0
        assert found.page.title() == f"Why {HOSTILE} goes or stays"
        assert found.said == []


def test_a_loop_that_goes_away_is_told_and_the_last_plan_stays(browser: "Browser") -> None:
    with served(browser, planned()) as found:
        found.last.say("the planner is away")
        found.page.get_by_text("the planner is away").wait_for()
        assert found.said == []
        found.port.__exit__()
        found.page.get_by_text("the loop does not answer; the last plan stays").wait_for()
        assert len(found.names()) == 5


def test_of_5000_nodes_the_first_are_drawn_and_a_search_finds_the_others(browser: "Browser") -> None:
    with served(browser, many(5000)) as found:
        assert len(found.names()) == 100
        found.page.get_by_label("Search").fill("n-0123")
        assert len(found.names()) == 10
        assert "10 of 10 nodes found" in found.page.locator(".count").inner_text()
        assert found.said == []
