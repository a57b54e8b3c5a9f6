"""The page of the loop in headless Chromium: real clicks and keys, hostile names, a loop that goes away, many nodes.

Skipped without Playwright or without a Chromium: the one on PATH, or that of the environment variable TRIMTAB_CHROMIUM.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.builders.screens import NOW_S, many, planned, renamed, status_of
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
        page.wait_for_selector("tr.open")

    def _asked(self, url: str) -> None:
        if not url.startswith((f"http://{self.port.address}/", "data:")):
            self.said.append(f"request: {url}")

    def names(self) -> list[str]:
        """Return the first cells of the rows shown."""
        return self.page.locator("tr.open td:first-child").all_text_contents()

    def see(self) -> None:
        """Make one more round."""
        assert self.last.picture is not None
        self.last.show(replace(self.last.picture))


@contextmanager
def served(browser: "Browser", answer: PlanAnswer, size: tuple[int, int] = DESKTOP) -> Iterator[Served]:
    last = LastPicture(clock=lambda: NOW_S + 7.0)
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
        assert found.page.title() == "shop: Trimtab"
        assert found.names() == ["a-1", "a-2", "a-3", "b-1", "b-2"]
        assert "5 → 5" in found.page.locator("#figures").inner_text()
        assert "draining: 3 of 7 pods gone" in found.page.locator("#rows").inner_text()
        assert found.page.locator("#when").inner_text().startswith("plan of 2026-03-01 00:00:00 UTC")
        assert found.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        assert found.said == []


def test_a_click_on_a_title_sorts_and_another_one_the_other_way_round(browser: "Browser") -> None:
    with served(browser, planned()) as found:
        title = found.page.get_by_role("button", name="cpu")
        title.click()
        assert found.names()[:2] == ["b-2", "a-1"]
        title.click()
        assert found.names()[-2:] == ["a-1", "b-2"]
        assert found.page.locator("th[aria-sort=ascending]").count() == 1
        assert found.said == []


def test_words_and_a_group_filter_rows(browser: "Browser") -> None:
    with served(browser, planned()) as found:
        found.page.get_by_label("Filter").fill("pool-b DRAIN")
        assert found.names() == ["b-1"]
        found.page.get_by_label("Filter").fill("")
        found.page.get_by_label("Group").select_option("pool-a")
        assert found.names() == ["a-1", "a-2", "a-3"]
        found.see()
        found.page.wait_for_timeout(2500)
        assert found.names() == ["a-1", "a-2", "a-3"]


def test_every_table_opens_by_a_click(browser: "Browser") -> None:
    with served(browser, planned()) as found:
        for name, first in (("groups", "pool-a"), ("pending", "1"), ("deletions", "b-1"), ("growth", "pool-a")):
            found.page.get_by_role("tab", name=name).click()
            assert found.names()[0] == first
        found.page.get_by_role("tab", name="groups").click()
        found.page.locator("tr.open").nth(1).click()
        assert found.names() == ["b-1", "b-2"]
        assert found.said == []


def test_a_click_on_a_node_explains_it_and_enter_does_so_too(browser: "Browser") -> None:
    with served(browser, planned()) as found:
        found.page.locator("tr.open", has_text="a-2").click()
        found.page.wait_for_selector("dialog[open]")
        assert "Pod default/bare has no controller" in found.page.locator("#told").inner_text()
        found.page.get_by_role("button", name="Close").click()
        found.page.locator("tr.open", has_text="a-1").press("Enter")
        found.page.wait_for_selector("dialog[open]")
        assert "Node a-1" in found.page.locator("#told").inner_text()
        assert found.said == []


def test_names_are_text_and_never_markup(browser: "Browser") -> None:
    with served(browser, renamed(HOSTILE)) as found:
        assert HOSTILE in found.names()
        found.page.locator("tr.open", has_text="onerror").click()
        found.page.wait_for_selector("dialog[open]")
        assert "<script>" in found.page.locator("#told").inner_text()
        assert found.page.locator("img").count() == 0
        assert found.page.title() == "shop: Trimtab"
        assert found.said == []


def test_a_loop_that_goes_away_is_told_and_the_last_plan_stays(browser: "Browser") -> None:
    with served(browser, planned()) as found:
        found.last.say("the planner is away")
        found.page.wait_for_selector("#trouble:not([hidden])")
        assert found.page.locator("#trouble").inner_text() == "the planner is away"
        assert found.said == []
        found.port.__exit__()
        found.page.get_by_text("the loop does not answer; the last plan stays").wait_for()
        assert len(found.names()) == 5


def test_of_5000_nodes_only_those_in_sight_are_drawn_and_the_last_can_be_scrolled_to(browser: "Browser") -> None:
    with served(browser, many(5000)) as found:
        assert found.page.locator("tr.open").count() < 100
        found.page.get_by_role("button", name="name").click()
        found.page.evaluate("document.getElementById('frame').scrollTop = 1e9")
        found.page.locator("tr.open", has_text="n-04999").wait_for()
        assert found.page.locator("tr.open").count() < 100
        found.page.get_by_label("Filter").fill("n-0123")
        assert found.page.locator("#count").inner_text() == "10 rows"
        assert found.said == []
