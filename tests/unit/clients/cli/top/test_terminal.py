"""The live screen on a terminal of a fixed size: its text, keys, filter, details, small terminals."""

from pathlib import Path

import pytest
from textual.pilot import Pilot

from tests.builders.screens import many, renamed, text_of_terminal, with_terminal
from trimtab.clients.cli.top.app import MOST_ROWS, DetailsScreen, RowTable, TopApp
from trimtab.clients.cli.top.feed import Picture, StillFeed
from trimtab.clients.cli.top.rows import lines_of, name_of, short_name
from trimtab.clients.cli.top.screen import TopView

HERE = Path(__file__).parent


def names(app: TopApp) -> list[str]:
    """Return the names of the rows shown."""
    assert app.query_one(RowTable).row_count == len(app._lines)
    return [name_of(app.table, line) for line in lines_of(app.table, app.selection)]


@pytest.mark.parametrize(("width", "height"), [(80, 24), (140, 24)])
def test_the_terminal_shows_what_the_kept_text_shows(width: int, height: int) -> None:
    async def act(app: TopApp, _pilot: Pilot[None]) -> None:
        assert text_of_terminal(app) == (HERE / f"terminal-{width}.txt").read_text(encoding="utf-8")

    with_terminal(act, size=(width, height))


@pytest.mark.parametrize("size", [(1, 1), (3, 2), (10, 3), (20, 5), (40, 8)])
def test_no_terminal_is_too_small_for_keys_to_work(size: tuple[int, int]) -> None:
    async def act(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("j", "C", "tab", "tab", "enter", "escape", "question_mark", "escape", "slash", "a", "escape")
        assert app.failure is None
        text_of_terminal(app)

    with_terminal(act, size=size)


def test_keys_move_the_cursor_as_far_as_there_are_rows() -> None:
    async def act(app: TopApp, pilot: Pilot[None]) -> None:
        table = app.query_one(RowTable)
        for keys, row in (
            (("j", "down", "k"), 1),
            (("G", "j"), 4),
            (("home", "k"), 0),
            (("pagedown",), 4),
            (("g",), 0),
        ):
            await pilot.press(*keys)
            assert table.cursor_row == row, keys

    with_terminal(act)


def test_a_filter_shows_rows_that_have_all_its_words_while_it_is_typed() -> None:
    async def act(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("slash", *"pool-b", "space", *"drain")
        assert names(app) == ["b-1"]
        await pilot.press("enter")
        assert app.query_one(RowTable).has_focus
        await pilot.press("escape")
        assert len(names(app)) == 5
        await pilot.press("slash", "exclamation_mark", *"pool-b", "enter")
        assert names(app) == ["a-1", "a-2", "a-3"]

    with_terminal(act)


def test_letters_sort_and_the_same_letter_again_sorts_the_other_way_round() -> None:
    async def act(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("C")
        assert names(app)[:2] == ["b-2", "a-1"]
        await pilot.press("C")
        assert names(app)[-2:] == ["a-1", "b-2"]
        await pilot.press("H")
        assert names(app)[:2] == ["b-1", "b-2"]
        await pilot.press("S")
        assert names(app)[0] == "b-1"
        await pilot.press("B")
        assert names(app) == ["a-1", "a-2", "a-3", "b-1", "b-2"]

    with_terminal(act)


def test_the_name_of_a_view_or_its_beginning_shows_it_and_escape_goes_back() -> None:
    async def act(app: TopApp, pilot: Pilot[None]) -> None:
        for typed, view, first in (
            ("pend", TopView.PENDING, "default/huge"),
            ("deletions", TopView.DELETIONS, "b-1"),
            ("growth", TopView.GROWTH, "pool-a"),
            ("groups", TopView.GROUPS, "pool-a"),
        ):
            await pilot.press("colon", *typed, "enter")
            assert (app.selection.view, names(app)[0]) == (view, first)
        await pilot.press("enter")
        assert (app.selection.view, app.selection.group) == (TopView.NODES, "pool-a")
        assert names(app) == ["a-1", "a-2", "a-3"]
        await pilot.press("escape", "colon", *"pods", "enter")
        await pilot.pause()
        assert ":pods is no view" in text_of_terminal(app)

    with_terminal(act)


def test_enter_on_a_node_explains_it_as_the_command_does() -> None:
    async def act(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("slash", *"a-2", "enter", "G", "enter")
        await pilot.pause()
        assert isinstance(app.screen, DetailsScreen)
        text = text_of_terminal(app)
        assert "Node a-2, of node group pool-a, with 1 pod." in text
        assert "Pod default/bare has no controller" in text
        await pilot.press("escape")
        assert not isinstance(app.screen, DetailsScreen)

    with_terminal(act)


def test_enter_on_pods_that_wait_names_them_and_says_why() -> None:
    async def act(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("colon", *"pending", "enter", "enter")
        await pilot.pause()
        text = text_of_terminal(app)
        assert "of: default/huge" in text
        assert "what becomes of them: no node group helps" in text
        assert "\n   default/huge" in text

    with_terminal(act)


def test_a_click_chooses_a_row_another_one_opens_it_and_one_on_a_title_sorts() -> None:
    async def act(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.click(RowTable, offset=(3, 0))
        await pilot.pause()
        assert app.selection.sort == "node"
        await pilot.click(RowTable, offset=(3, 3))
        assert app.query_one(RowTable).cursor_row == 2
        assert not isinstance(app.screen, DetailsScreen)
        await pilot.click(RowTable, offset=(3, 3))
        await pilot.pause()
        assert isinstance(app.screen, DetailsScreen)

    with_terminal(act)


def test_names_with_control_characters_and_markup_do_not_reach_the_terminal_as_such() -> None:
    async def act(app: TopApp, pilot: Pilot[None]) -> None:
        assert "b[red]\\x1b[2J" in text_of_terminal(app)
        await pilot.press("G", "enter")
        await pilot.pause()
        assert "Node b[red]\\x1b[2J, of node group" in text_of_terminal(app)

    with_terminal(act, StillFeed(Picture(renamed("b[red]\x1b[2J"), None, "shop")))


@pytest.mark.ci
def test_of_1500_nodes_the_first_are_in_the_table_and_sorting_and_a_filter_find_the_others() -> None:
    async def act(app: TopApp, pilot: Pilot[None]) -> None:
        table = app.query_one(RowTable)
        assert table.row_count == MOST_ROWS
        assert "1/1,500 nodes, the first 500 are shown" in text_of_terminal(app)
        await pilot.press("N", "N")
        await pilot.pause()
        assert "n-01499" in text_of_terminal(app)
        await pilot.press("slash", *"n-0123", "enter")
        await pilot.pause()
        assert table.row_count == 10

    with_terminal(act, StillFeed(Picture(many(1500), None, "large")))


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("n-1", "n-1"),
        ("ip-10-0-130-211.eu-west-1.compute.internal", "ip-10-0-130-211…"),
        ("gke-production-europe-west1-default-pool-9f3c2b1a-abcd", "gke-production-…l-9f3c2b1a-abcd"),
    ],
)
def test_long_names_keep_what_tells_them_apart(name: str, short: str) -> None:
    assert short_name(name, 31) == short


def test_the_key_q_leaves_the_screen() -> None:
    async def act(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("q")
        assert not app.is_running or app._exit

    with_terminal(act)
