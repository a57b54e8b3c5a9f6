"""Plan states of other versions can be continued: of a release, and of a future version."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.stored.plan_history import CLUSTER, FIRST_S, SNAPSHOT, STATE, STEP_S, WANTED, ask, known, snapshot
from trimtab.clients.loop.kept_state import StateFile, StateKeeper
from trimtab.planner.placement.hints import LAYOUT_VERSION
from trimtab.v1 import plan_pb2, snapshot_pb2
from trimtab.v1.opaque_state_pb2 import OpaqueState

RELEASES = sorted(path for path in Path(__file__).parent.iterdir() if (path / STATE).exists())
KEPT_S = FIRST_S + STEP_S
PARTS = [field.name for field in plan_pb2.PlanState.DESCRIPTOR.fields]
AFRESH: set[str] = set()
"""Parts of releases' states whose layout has changed: these decisions start with empty state after an upgrade."""
LATER_FIELD = b"\xc2\x3e\x05later"
"""Field 1000 with five bytes."""


@pytest.fixture(params=RELEASES, ids=[path.name for path in RELEASES])
def release(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return the files of a release."""
    return Path(shutil.copytree(request.param, tmp_path / "release"))


def load(release: Path) -> plan_pb2.PlanState:
    with capture_logs() as logs:
        state = StateKeeper(StateFile(release / STATE), CLUSTER, max_age_s=STEP_S).load(KEPT_S)
    assert [line["event"] for line in logs] == ["state_resumed"]
    assert state is not None
    return state


def test_there_is_a_state_of_a_release() -> None:
    assert RELEASES


def test_the_state_of_a_release_is_read_and_continued(release: Path) -> None:
    cluster = snapshot_pb2.ClusterSnapshot.FromString((release / SNAPSHOT).read_bytes())
    state = load(release)
    answer = ask(cluster, state, KEPT_S + STEP_S)
    assert {one.split()[0] for one in answer.summary.notes if "starting with empty state" in one} == AFRESH
    wanted: dict[str, Any] = json.loads((release / WANTED).read_text())
    found = known(answer)
    assert wanted["unneeded"]
    assert wanted["placeholders"]
    # Without the state all of them would be unneeded since now.
    assert found == wanted
    assert set(known(ask(cluster, None, KEPT_S + STEP_S))["unneeded"].values()) == {KEPT_S + STEP_S}


def test_a_later_version_may_add_fields_and_this_one_continues_from_its_state() -> None:
    ours = ask(snapshot(), None, FIRST_S)
    assert [part for part in PARTS if not ours.state.HasField(part)] == []
    later = plan_pb2.PlanState()
    later.CopyFrom(ours.state)
    for part in (later, *(getattr(later, name) for name in PARTS)):
        part.MergeFromString(LATER_FIELD)
    assert later.ByteSize() > ours.state.ByteSize()
    assert known(ask(snapshot(), later, KEPT_S)) == known(ask(snapshot(), ours.state, KEPT_S))


def test_a_future_layout_of_the_opaque_parts_is_dropped_with_notes_and_everything_typed_continues() -> None:
    first = ask(snapshot(), None, FIRST_S)
    later = plan_pb2.PlanState()
    later.CopyFrom(first.state)
    for part in (later.scale_up, later.scale_down):  # All of the others is typed.
        part.opaque = OpaqueState(layout_version=LAYOUT_VERSION + 1, search_start=1).SerializeToString()
    answer = ask(snapshot(), later, KEPT_S)
    assert [one.split(":")[0] for one in answer.summary.notes if "opaque" in one] == [
        "the opaque part of the scale-up state was dropped (its layout is 6, not 5)",
        "the opaque part of the scale-down state was dropped (its layout is 6, not 5)",
    ]
    assert known(answer) == known(ask(snapshot(), first.state, KEPT_S))
    assert set(known(answer)["unneeded"].values()) == {FIRST_S}
