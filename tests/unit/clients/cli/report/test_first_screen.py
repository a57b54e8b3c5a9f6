"""The first screen of a cluster's page in headless Chromium, on a desktop, on an emulated phone and on paper; its large
table; and how large pages are.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.unit.clients.cli.report.browsers import CHROMIUM, needs_chromium, opened_browser
from trimtab.clients.cli.plan import CommandOptions
from trimtab.clients.cli.report.command import planned
from trimtab.clients.cli.report.page import rendered
from trimtab.clients.cli.several_clusters import clusters_page, plan_each
from trimtab.clients.cluster_generator import ClusterShape, generate, write_list

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [*needs_chromium, pytest.mark.ci]
NODES = 120
LARGE_NODES, MOST_BYTES = 5000, 1_000_000


def cluster(folder: Path, nodes: int, pods: int) -> Path:
    path = folder / f"cluster-{nodes}.json"
    write_list(generate(ClusterShape(nodes=nodes, pods=pods, seed=4)), path)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages of a cluster, and of two clusters."""
    path = tmp_path_factory.mktemp("first-screen")
    file = cluster(path, NODES, 1800)
    (path / "one.html").write_text(rendered(planned(CommandOptions((file,)))), encoding="utf-8")
    small = cluster(path, 12, 100)
    several = CommandOptions((), named=(f"large={file}", f"small={small}"))
    (path / "two.html").write_text(rendered(clusters_page(plan_each(several), with_pictures=True)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    with opened_browser(CHROMIUM) as found:
        yield found


@pytest.fixture
def desktop(browser: "Browser", folder: Path) -> Iterator["Page"]:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto((folder / "one.html").as_uri())
    yield page
    page.close()


def bottom(page: "Page", selector: str) -> float:
    box = page.locator(selector).last.bounding_box()
    assert box is not None
    return box["y"] + box["height"]


def test_figures_maps_and_bars_are_on_the_first_screen(desktop: "Page") -> None:
    assert [text.split("\n")[0] for text in desktop.locator(".figure").all_inner_texts()] == [
        "Now", "After the plan", "Saved a month",
    ]  # fmt: skip
    before, after = (one.bounding_box() for one in desktop.locator(".map").all())
    assert before is not None
    assert after is not None
    assert before["y"] == after["y"]
    assert max(bottom(desktop, one) for one in (".figure", ".first .bars", ".map")) <= 900


def test_a_click_on_a_bar_shows_every_cause(desktop: "Page") -> None:
    causes = desktop.locator(".bars details").first
    assert not causes.locator(".more").is_visible()
    causes.locator("summary").click()
    assert causes.locator(".more").is_visible()
    lines = causes.locator(".more").inner_text().splitlines()
    assert len(lines) >= 2
    assert all(re.fullmatch(r"1 node, node group batch-[abc]: \d nodes, minimum 1", line) for line in lines)


def test_advice_is_below_the_first_screen_and_a_click_shows_its_other_lines(desktop: "Page") -> None:
    advice = desktop.locator(".advice")
    box = advice.bounding_box()
    assert box is not None
    assert box["y"] >= max(bottom(desktop, one) for one in (".first .bars", ".map"))
    several = advice.locator("li", has=desktop.locator("details")).first
    lines = several.locator("code")
    assert (lines.first.is_visible(), lines.nth(1).is_visible()) == (True, False)
    several.locator("summary").click()
    assert lines.nth(1).is_visible()
    assert re.fullmatch(r"set spec.minSize: 0 of NodeGroup/batch-[abc] \(now 1\)", lines.nth(1).inner_text())


def test_the_table_of_nodes_is_last_and_can_be_searched_and_sorted(desktop: "Page") -> None:
    rows = desktop.locator(".grid-of-nodes tbody tr")
    assert rows.count() == 100
    desktop.get_by_role("button", name="Show all").click()
    assert rows.count() == NODES
    desktop.get_by_role("button", name="used").click()
    used = [int(text.split()[0]) for text in desktop.locator(".grid-of-nodes tbody td:nth-child(5)").all_inner_texts()]
    assert used == sorted(used, reverse=True) != []
    desktop.get_by_label("Search").fill("general-a can go")
    found = rows.all_inner_texts()
    assert 0 < len(found) < NODES
    assert all("general-a" in text and "can go" in text for text in found)
    assert desktop.locator(".count").inner_text() == f"{len(found)} of {len(found)} nodes found"
    assert desktop.locator("main > *").last.get_attribute("class") == "grid-of-nodes"


@pytest.mark.parametrize("page", ["one", "two"])
def test_a_phone_shows_the_page_without_scrolling_aside(browser: "Browser", folder: Path, page: str) -> None:
    context = browser.new_context(
        viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True, device_scale_factor=2
    )
    phone = context.new_page()
    phone.goto((folder / f"{page}.html").as_uri())
    assert phone.evaluate("document.documentElement.scrollWidth") == 390
    assert bottom(phone, ".figure") < 844
    phone.locator("summary").first.tap()
    assert phone.evaluate("document.documentElement.scrollWidth") == 390
    context.close()


def test_paper_has_figures_maps_and_bars_and_nothing_to_click(browser: "Browser", folder: Path) -> None:
    page = browser.new_page(viewport={"width": 718, "height": 1040})
    page.goto((folder / "one.html").as_uri())
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.scrollWidth") <= 718
    assert not page.locator(".tools").is_visible()
    for selector in (".figure", ".map", ".bars"):
        assert page.locator(selector).first.is_visible()
    assert bottom(page, ".figure") < 300
    page.close()


def test_a_page_over_clusters_opens_the_page_of_each(browser: "Browser", folder: Path) -> None:
    page = browser.new_page()
    page.goto((folder / "two.html").as_uri())
    parts = page.locator("details.part")
    assert [text.split(":")[0] for text in parts.locator("> summary").all_inner_texts()] == ["large", "small"]
    parts.nth(1).locator("> summary").click()
    assert parts.nth(1).locator(".grid-of-nodes tbody tr").count() == 12
    assert parts.nth(1).locator(".figure").count() == 3
    page.close()


@pytest.mark.parametrize("nodes", [1000, pytest.param(LARGE_NODES, marks=pytest.mark.nightly)])
def test_a_page_of_many_nodes_is_below_a_megabyte_and_its_maps_are_whole(
    browser: "Browser", tmp_path: Path, nodes: int
) -> None:
    path = tmp_path / "page.html"
    text = rendered(planned(CommandOptions((cluster(tmp_path, nodes, 4 * nodes),))))
    path.write_text(text, encoding="utf-8")
    assert len(text.encode()) < MOST_BYTES
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(path.as_uri())
    assert "What to change" in page.locator(".advice").inner_text()
    assert f"{nodes:,} nodes" in page.locator(".map").first.inner_text()
    assert 100 <= page.locator(".map").first.locator(".cell").count() <= 330
    assert page.locator(".map .groups").first.evaluate("one => one.scrollHeight - one.clientHeight") <= 0
    assert bottom(page, ".map") <= 900
    page.close()
