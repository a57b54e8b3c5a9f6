"""A recording on the live screen: every round as it was, forwards, backwards and playing."""

import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest
from textual.pilot import Pilot

from tests.builders.cli import Run
from tests.builders.screens import text_of_terminal, until, until_shown, with_terminal
from tests.builders.waiting import LIMIT_S
from tests.unit.clients.cli.report.recordings import recorded, scenario
from trimtab.clients.cli.live import rounds_reader
from trimtab.clients.cli.live.rounds_reader import Recorded, RecordedClusters, read_recording
from trimtab.clients.cli.top import recorded_feed
from trimtab.clients.cli.top.app import TopApp
from trimtab.clients.cli.top.feed import Picture
from trimtab.clients.cli.top.recorded_feed import RecordedFeed
from trimtab.clients.cli.top.screen import TopView
from trimtab.common.deltas import Application
from trimtab.v1 import plan_pb2, snapshot_pb2


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve minutes in which nodes come for a burst of pods."""
    path = tmp_path_factory.mktemp("top") / "shop.trimtab"
    recorded(path, scenario(duration="12m"))
    return path


@pytest.fixture(scope="module")
def rounds(file: Path) -> list[Recorded]:
    return read_recording(file)


def content(snapshot: snapshot_pb2.ClusterSnapshot) -> tuple[list[str], int, bytes]:
    return sorted(node.name for node in snapshot.nodes), snapshot.pods.count, snapshot.pods.names


def test_each_cluster_is_the_same_whichever_way_one_comes_to_it(
    rounds: list[Recorded], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds_reader, "CHECKPOINT", 5)
    whole: list[snapshot_pb2.ClusterSnapshot] = []
    followed: Application | None = None
    for one in rounds:
        if one.update.snapshot is not None:
            followed = Application(one.update.snapshot)
        elif one.update.delta is not None and followed is not None:
            followed.add(one.update.delta)
        assert followed is not None
        whole.append(followed.result())
    assert len({content(one)[1] for one in whole}) > 1
    clusters = RecordedClusters(rounds)
    last = len(rounds) - 1
    for index in (last, 0, 3, 2, 11, 10, last - 1, last, 7):
        assert content(clusters.at(index)) == content(whole[index])


def test_every_round_shows_what_was_answered_then(file: Path, rounds: list[Recorded]) -> None:
    feed = RecordedFeed(file, rounds)
    for index in (0, len(rounds) // 2, len(rounds) - 1):
        picture = feed.picture(index)
        assert picture.answer.response == rounds[index].answer
        assert picture.screen.time_s == rounds[index].request.now.ToNanoseconds() / 1e9
        assert len(picture.screen.tables[TopView.NODES].lines) == rounds[index].answer.diagnostics.node_count


async def shown(app: TopApp, pilot: Pilot[None], text: str) -> None:
    """Wait until the head has a text."""
    await until(app, pilot, lambda: app.picture is not None and text == app.picture.position)
    await until_shown(app, pilot, text)


def test_keys_step_through_the_rounds_and_never_beyond_the_ends(file: Path, rounds: list[Recorded]) -> None:
    count = len(rounds)

    async def act(app: TopApp, pilot: Pilot[None]) -> None:
        for key, number in (
            ("right", count), ("left_square_bracket", count - 1), ("left", count - 2),
            ("right_square_bracket", count - 1), ("home", 1), ("left", 1), ("right", 2), ("end", count),
        ):  # fmt: skip
            await pilot.press(key)
            await shown(app, pilot, f"round {number} of {count}")

    with_terminal(act, RecordedFeed(file, rounds), size=(120, 24))


class Positions:
    """A sink that keeps which rounds were shown."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def show(self, picture: Picture) -> None:
        self.seen.append(picture.position)

    def say(self, text: str) -> None:
        self.seen.append(text)


def wait_until(holds: Callable[[], bool]) -> None:
    end_s = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < end_s
        time.sleep(0.01)


def test_a_recording_plays_from_the_first_round_to_the_last_and_stops(
    file: Path, rounds: list[Recorded], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded_feed, "PLAY_S", 0.01)
    feed, sink = RecordedFeed(file, rounds[:4]), Positions()
    thread = Thread(target=feed.run, args=(sink,))
    thread.start()
    wait_until(lambda: len(sink.seen) == 1)
    feed.pause(False)
    wait_until(lambda: feed.is_paused and len(sink.seen) >= 5)
    feed.stop()
    thread.join()
    assert sink.seen == [f"round {number} of 4" for number in (4, 1, 2, 3, 4)]


def test_space_plays_and_stops(file: Path, rounds: list[Recorded], monkeypatch: pytest.MonkeyPatch) -> None:
    # The next round comes no earlier than the test has looked at the first one.
    monkeypatch.setattr(recorded_feed, "PLAY_S", LIMIT_S)

    async def act(app: TopApp, pilot: Pilot[None]) -> None:
        assert "paused" in text_of_terminal(app)
        await pilot.press("space")
        await shown(app, pilot, f"round 1 of {len(rounds)}")
        assert "paused" not in text_of_terminal(app)
        await pilot.press("space")
        await pilot.pause()
        assert "paused" in text_of_terminal(app)

    with_terminal(act, RecordedFeed(file, rounds), size=(120, 24))


def test_without_a_terminal_the_last_round_is_printed(trimtab: Run, file: Path, rounds: list[Recorded]) -> None:
    done = trimtab("top", file)
    assert done.code == 0
    assert f"round {len(rounds)} of {len(rounds)}" in done.out.splitlines()[0]


def test_a_recording_that_begins_with_a_change_says_so_and_shows_no_traceback(
    file: Path, rounds: list[Recorded]
) -> None:
    assert rounds[1].update.delta is not None

    async def act(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.pause()
        assert "round 1 cannot be shown" in text_of_terminal(app)

    app = with_terminal(act, RecordedFeed(file, [rounds[1]._replace(answer=plan_pb2.PlanResponse())]))
    assert app.failure is None


def test_of_a_recording_that_is_cut_off_the_rounds_before_are_shown(trimtab: Run, file: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.trimtab"
    cut.write_bytes(file.read_bytes()[:-200])
    done = trimtab("top", cut, "--once")
    assert done.code == 0
    assert "cut" in done.err
    assert "round" in done.out.splitlines()[0]
