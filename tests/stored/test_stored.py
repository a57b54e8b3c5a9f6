"""Stores of other versions are readable: one that an earlier build of 0.1.0 wrote, and one of a future version. Nothing
is released yet: with the first release its store takes the place of the earlier build's.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.stored.history import DATA, FIRST_MS, STEP_MS, STORE, fill, history
from trimtab.actuator.store.journal import Journal
from trimtab.actuator.store.records import MemoryStore, Record
from trimtab.actuator.store.sql import SqlStore, sqlite_url
from trimtab.actuator.tracker import events
from trimtab.actuator.tracker.tracker import Tracker

RELEASES = sorted(path for path in Path(__file__).parent.iterdir() if (path / STORE).exists())
LATER = {
    "instance_left", "absence_ended", "node_types_seen", "nodes_counted", "taint_restored", "time_noted",
    "replacement_accepted", "leaving_marked", "nodes_ordered", "orders_missed", "new_nodes_ready", "drains_allowed",
    "leaving_stays", "drains_ended", "replacement_failed", "replacement_cancelled", "leaving_unmarked",
    "lowering_begun", "lowering_ended", "surplus_stays", "orders_left", "replacement_ended",
}  # fmt: skip
"""Kinds of events added after that build: it cannot continue with a store that has them."""


def holds(present: Any, before: Any, place: str = "") -> None:
    """Check that the present state contains the earlier one; it may have more."""
    if isinstance(before, dict):
        for key, value in before.items():
            assert key in present, f"{place}.{key} is lost"
            holds(present[key], value, f"{place}.{key}")
    elif isinstance(before, list):
        assert len(present) == len(before), place
        for number, value in enumerate(before):
            holds(present[number], value, f"{place}[{number}]")
    else:
        assert present == before, place


@pytest.fixture(params=RELEASES, ids=[path.name for path in RELEASES])
def release(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a copy of a release's store, because opening a store writes to it."""
    return Path(shutil.copytree(request.param, tmp_path / "release"))


def test_there_is_a_store_of_a_release() -> None:
    assert RELEASES


def test_the_store_of_a_release_is_read_and_continued(release: Path) -> None:
    before = json.loads((release / DATA).read_text())
    journal = Journal(SqlStore(sqlite_url(release / STORE)))
    holds(json.loads(journal.tracker.dump()), before)
    journal.tracker.check_invariants()
    end_ms = FIRST_MS + 1000 * STEP_MS
    for event in (events.PodsEvicted("n6", ()), events.Drained("n6"), events.DeleteBegun("n6")):
        journal.handle(event, end_ms)
    journal.commit()
    known = journal.tracker.dump()
    journal.close()
    again = Journal(SqlStore(sqlite_url(release / STORE)))
    assert again.tracker.dump() == known
    again.close()


def test_what_the_actuator_knew_is_read_from_a_snapshot(release: Path) -> None:
    before = (release / DATA).read_bytes()
    holds(json.loads(Tracker.load(before).dump()), json.loads(before))


def test_the_history_of_the_fixture_has_every_kind_of_event() -> None:
    kinds = {json.loads(events.encode(event))["event"] for event in history()}
    known = {one.__struct_config__.tag for one in msgspec.inspect.type_info(events.AnyEvent).types for one in [one.cls]}
    assert known - kinds == LATER


def test_a_later_version_may_add_fields_and_this_one_reads_its_store() -> None:
    ours = Journal(MemoryStore())
    fill(ours)
    store = MemoryStore()
    records = []
    for number, event in enumerate(history()):
        payload = json.loads(events.encode(event)) | {"added": {"later": [1]}}
        records.append(Record(FIRST_MS + number * STEP_MS, json.dumps(payload).encode()))
    store.append(1, records)
    assert Journal(store).tracker.dump() == ours.tracker.dump()
    snapshot = json.loads(ours.tracker.dump())
    snapshot["added"] = "later"
    for deletion in snapshot["deletions"].values():
        deletion["added"] = True
    assert Tracker.load(json.dumps(snapshot).encode()).dump() == ours.tracker.dump()
