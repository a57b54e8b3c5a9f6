"""The documentation as a site: every page is in its navigation, links lead to pages and headings, nothing comes from
other sites, and README is short. `.ci/run` builds it with `mkdocs build --strict`.
"""

import importlib.util
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.builders.documentation import PAGES, ROOT, blocks, text_of
from trimtab.actuator.tracker.deletion_steps import EDGES
from trimtab.actuator.tracker.states import State

CONFIGURATION = yaml.safe_load((ROOT / ".ci/mkdocs.yml").read_text(encoding="utf-8"))
MOST_LINES = 110


def in_navigation(entries: Any) -> Iterator[str]:
    """Return the pages of a part of the navigation."""
    if isinstance(entries, str):
        yield entries
    else:
        for entry in entries.values() if isinstance(entries, dict) else entries:
            yield from in_navigation(entry)


def headings(text: str) -> set[str]:
    """Return the anchors of a page's headings, as mkdocs and GitHub form them for the letters that we use."""
    titles = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title).strip().lower().replace(" ", "-") for title in titles}


def test_no_page_is_missing_in_the_navigation_and_none_is_there_twice() -> None:
    listed = list(in_navigation(CONFIGURATION["nav"]))
    assert sorted(listed) == sorted(page.removeprefix("docs/") for page in PAGES if page.startswith("docs/"))


def test_the_first_page_links_every_other_one() -> None:
    linked = set(re.findall(r"\]\(([\w/-]+\.md)", text_of("docs/index.md")))
    assert linked == set(in_navigation(CONFIGURATION["nav"])) - {"index.md"}


def test_prose_has_lines_of_at_most_120_characters() -> None:
    for page in PAGES:
        prose = re.sub(r"^```.*?^```$", "", text_of(page), flags=re.MULTILINE | re.DOTALL).splitlines()
        assert [line for line in prose if len(line) > 120 and not line.startswith("|")] == [], page


def test_readme_is_short_enough_to_read() -> None:
    assert len(text_of("README.md").splitlines()) <= MOST_LINES


@pytest.mark.parametrize("page", PAGES)
def test_links_between_pages_lead_to_a_file_and_a_heading_in_it(page: str) -> None:
    broken = []
    for link in re.findall(r"\]\((?!https?:)([^)]+)\)", text_of(page)):
        path, _, anchor = link.partition("#")
        file = ((ROOT / page).parent / path).resolve() if path else ROOT / page
        if not file.exists() or (anchor and anchor not in headings(file.read_text(encoding="utf-8"))):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", [page for page in PAGES if page.startswith("docs/")])
def test_a_page_begins_with_its_only_title(page: str) -> None:
    text = re.sub(r"^```.*?^```$", "", text_of(page), flags=re.MULTILINE | re.DOTALL)
    assert re.findall(r"^# ", text, re.MULTILINE) == ["# "]
    assert text.startswith("# ")


@pytest.mark.parametrize("page", PAGES)
def test_headings_begin_with_a_letter_as_the_sites_script_selects_them_by_their_anchors(page: str) -> None:
    assert [anchor for anchor in headings(text_of(page)) if not anchor[0].isalpha()] == []


def test_the_site_takes_no_scripts_styles_or_fonts_from_other_sites() -> None:
    assert CONFIGURATION["theme"]["name"] == "mkdocs"
    assert CONFIGURATION["theme"]["highlightjs"] is False
    assert "analytics" not in CONFIGURATION["theme"]
    own = CONFIGURATION["extra_css"] + CONFIGURATION.get("extra_javascript", [])
    assert [path for path in own if not (ROOT / "docs" / path).is_file()] == []
    assert "//" not in text_of("docs/assets/site.css")


def test_the_layout_in_contributing_names_every_package_and_nothing_else() -> None:
    layout = text_of("CONTRIBUTING.md").partition("## How to work")[0]
    described = r"^- `(planner|actuator|common|clients|tests|deploy)/`: (.*(?:\n  .*)*)$"
    rows = dict(re.findall(described, layout, re.MULTILINE))
    assert len(rows) == 6
    for folder, text in rows.items():
        named = set(re.findall(r"`([\w-]+)`(?!/)", text)) - {"trimtab"}
        # What a checkout keeps of a package that has moved is the compiled part alone.
        inside = [path for path in (ROOT / folder).glob("*/**/*") if path.is_file() and "__pycache__" not in path.parts]
        folders = {path.relative_to(ROOT / folder).parts[0] for path in inside}
        packages = folders - {"__pycache__", "data", "stored"}
        missing = packages - named
        unknown = {name for name in named if not (ROOT / folder / name).exists()}
        modules = {name for name in unknown if (ROOT / folder / f"{name}.py").exists()}
        assert (missing, unknown - modules) == (set(), set()), folder


def test_the_picture_of_a_deletion_has_every_edge_of_the_trackers_table_and_no_other() -> None:
    (picture,) = [block.text for block in blocks("mermaid") if "stateDiagram" in block.text]
    drawn = {
        (source, target, event)
        for source, target, events in re.findall(r"^  (\w+) --> (\w+): (.*)$", picture, re.MULTILINE)
        for event in events.split(", ")
    }
    # The table has one target for each event; a rolled back deletion that a caller cancelled is CANCELLED, not FAILED.
    cancelled = (State.ROLLING_BACK.name, State.CANCELLED.name, "RolledBack")
    assert drawn == {*((edge.source.name, edge.target.name, edge.event.__name__) for edge in EDGES), cancelled}
    ends = {state for edge in EDGES for state in (edge.source.name, edge.target.name)} | {State.CANCELLED.name}
    assert set(re.findall(r"^  (\w+) --> \[\*\]$", picture, re.MULTILINE)) == ends - {
        edge.source.name for edge in EDGES
    }


@pytest.mark.parametrize("page", PAGES)
def test_paths_of_the_repository_on_a_page_exist(page: str) -> None:
    named = re.findall(
        r"(?<![\w/.])((?:planner|actuator|clients|protos|deploy|docs|tests|\.ci)/[\w./-]*\w)", text_of(page)
    )
    planned = {"planner/headroom"}  # what "Adding a decision" adds
    assert [path for path in named if not (ROOT / path).exists() and path not in planned] == []


def test_the_picture_of_each_block_is_drawn_of_the_text_that_the_page_has() -> None:
    found = importlib.util.spec_from_file_location("pictures", ROOT / ".ci" / "pictures.py")
    assert found is not None
    assert found.loader is not None
    program = importlib.util.module_from_spec(found)
    found.loader.exec_module(program)
    drawn = [
        (name, program.digest(text) in text_of(f"docs/assets/{name}"))
        for page in PAGES
        for name, text in program.pictures(page.removeprefix("docs/").removesuffix(".md"), text_of(page))
    ]
    assert len(drawn) == 3
    assert [name for name, is_new in drawn if not is_new] == [], "run: python .ci/pictures.py"
    assert CONFIGURATION["hooks"] == ["pictures.py"]
