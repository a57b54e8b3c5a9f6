"""Timers of nodes continue after a restart, and start again if no loop ran in between. Durations are those of the
monotonic clock, whatever happens to the wall clock.
"""

import base64
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import urllib3
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.api_server import FakeApiServer, Fault
from tests.builders.loop import Scripted, run
from tests.builders.waiting import LIMIT_S
from trimtab.clients.loop.health import Health
from trimtab.clients.loop.kept_state import (
    PAUSE_S,
    REFRESH_S,
    StateConfigMap,
    StateFile,
    StateKeeper,
    StateStorage,
)
from trimtab.clients.loop.loop import Loop, LoopServices, LoopSettings
from trimtab.clients.loop.loop_clock import LARGEST_DRIFT_S, LoopClock, shift
from trimtab.common.kubernetes.api import Api
from trimtab.common.kubernetes.connection import Connection
from trimtab.common.kubernetes.errors import ApiError, KubernetesError
from trimtab.common.rpc.retries import Backoff
from trimtab.v1 import plan_pb2

MAP = "/api/v1/namespaces/here/configmaps/kept"
NOW_S = 1_790_000_000.0


@pytest.fixture
def server() -> Iterator[FakeApiServer]:
    with FakeApiServer() as started:
        yield started


@pytest.fixture
def config_map(server: FakeApiServer) -> StateConfigMap:
    return StateConfigMap(Api(Connection(server.url, urllib3.PoolManager(), lambda: "")), "here", "kept")


@pytest.fixture(params=["file", "ConfigMap"])
def place(request: pytest.FixtureRequest, tmp_path: Path, config_map: StateConfigMap) -> StateStorage:
    return StateFile(tmp_path / "state") if request.param == "file" else config_map


class InMemory:
    """A place of any size that counts writes."""

    is_cheap = False

    def __init__(self, limit_bytes: int = 1 << 20) -> None:
        self.limit_bytes, self.data, self.writes = limit_bytes, b"", 0

    def read(self) -> bytes | None:
        return self.data or None

    def write(self, data: bytes) -> None:
        self.data, self.writes = data, self.writes + 1


def state(nodes: int = 3, hints: int = 0) -> plan_pb2.PlanState:
    whole = plan_pb2.PlanState()
    made = whole.scale_down
    made.strings.extend(["", *(f"n{i}" for i in range(nodes))])
    made.unneeded.node = b"".join((i + 1).to_bytes(4, "little") for i in range(nodes))
    made.unneeded.time_ns = bytes(8) * nodes
    made.unremovable.blocking_pod.extend(f"default/p{random.Random(i).random()}" for i in range(nodes))
    if hints:
        made.opaque = random.Random(1).randbytes(hints)
    return whole


@pytest.mark.parametrize("later_s", [0, 250, -10_000], ids=["at once", "later", "with a clock that is behind"])
def test_timers_continue_where_they_were_when_the_state_was_written(place: StateStorage, later_s: int) -> None:
    kept = state()
    kept.scale_down.unneeded.time_ns = int((NOW_S - 20) * 1e9).to_bytes(8, "little") * 3
    StateKeeper(place, "c", 300).save(kept, NOW_S)
    found = StateKeeper(place, "c", 300).load(NOW_S + later_s)
    assert found is not None
    assert found.scale_down.unneeded.time_ns == int((NOW_S + later_s - 20) * 1e9).to_bytes(8, "little") * 3


def test_kept_state_is_continued(place: StateStorage) -> None:
    StateKeeper(place, "c", 300).save(state(hints=40), NOW_S)
    found = StateKeeper(place, "c", 300).load(NOW_S + 200)
    assert found is not None
    assert found.scale_down.unneeded == state().scale_down.unneeded
    assert len(found.scale_down.opaque) == (40 if place.is_cheap else 0), "what only saves time is not worth etcd's"
    StateKeeper(place, "c", 300).save(state(5), NOW_S + 300)
    found = StateKeeper(place, "c", 300).load(NOW_S + 300)
    assert found is not None
    assert found.scale_down.unneeded == state(5).scale_down.unneeded


def test_without_a_place_to_keep_state_there_is_none(place: StateStorage) -> None:
    assert StateKeeper(place, "c", 300).load(NOW_S) is None


@pytest.mark.parametrize(
    ("cluster", "later_s"),
    [pytest.param("c", 301, id="nobody has watched since"), pytest.param("d", 1, id="of another cluster")],
)
def test_unusable_state_is_not_continued(place: StateStorage, cluster: str, later_s: float) -> None:
    StateKeeper(place, "c", 300).save(state(), NOW_S)
    assert StateKeeper(place, cluster, 300).load(NOW_S + later_s) is None


def put_raw(server: FakeApiServer, value: Any) -> None:
    metadata = {"name": "kept", "resourceVersion": "1"}
    server.documents[MAP] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "binaryData": value}


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(None, id="no data"),
        pytest.param({}, id="no key"),
        pytest.param({"state": "%"}, id="no base64"),
        pytest.param({"state": 7}, id="no text"),
        pytest.param({"state": base64.b64encode(b"damaged").decode()}, id="not compressed"),
        pytest.param({"state": base64.b64encode(b"\x28\xb5\x2f\xfd\x00\x00\x01\x00\x00").decode()}, id="of no size"),
    ],
)
def test_a_config_map_that_says_nothing_useful_is_not_used(
    server: FakeApiServer, config_map: StateConfigMap, value: Any
) -> None:
    put_raw(server, value)
    assert StateKeeper(config_map, "c", 300).load(NOW_S) is None


def test_only_the_absence_of_the_config_map_itself_means_that_nothing_was_kept(
    server: FakeApiServer, config_map: StateConfigMap
) -> None:
    assert config_map.read() is None
    config_map.write(b"kept")
    server.fail(MAP, Fault(status=404, reason="NotFound", message="page not found"))
    with pytest.raises(ApiError, match="page not found"):
        config_map.read()
    assert config_map.read() == b"kept"


def test_a_damaged_file_and_a_directory_are_not_used(tmp_path: Path) -> None:
    keeper = StateKeeper(StateFile(tmp_path / "state"), "c", 300)
    keeper.save(state(1000), NOW_S)
    (tmp_path / "state").write_bytes((tmp_path / "state").read_bytes()[:-5])
    assert keeper.load(NOW_S) is None
    (tmp_path / "folder").mkdir()
    assert StateKeeper(StateFile(tmp_path / "folder"), "c", 300).load(NOW_S) is None
    StateKeeper(StateFile(tmp_path / "folder"), "c", 300).save(state(), NOW_S)


def test_what_is_too_large_is_kept_without_what_can_be_done_without() -> None:
    place = InMemory(limit_bytes=3000)
    place.is_cheap = True
    keeper = StateKeeper(place, "c", 300)
    keeper.save(state(100, hints=5000), NOW_S)
    first = keeper.load(NOW_S)
    assert first is not None
    assert (first.scale_down.opaque, first.scale_down.HasField("unremovable")) == (b"", True)
    keeper.save(state(300), NOW_S + PAUSE_S)
    second = keeper.load(NOW_S + PAUSE_S)
    assert second is not None
    assert (len(second.scale_down.unneeded.node), second.scale_down.HasField("unremovable")) == (1200, False)
    writes = place.writes
    place.limit_bytes = 10
    keeper.save(state(300), NOW_S + 500)
    assert place.writes == writes, "one that does not fit at all is not kept in part"


def test_it_is_written_neither_too_often_nor_too_seldom() -> None:
    place = InMemory()
    keeper = StateKeeper(place, "c", 300)
    written = []
    for second in range(int(2 * REFRESH_S) + 1):
        keeper.save(state(3 if second < 30 else 4), NOW_S + second)
        written.append(place.writes)
    assert written[int(PAUSE_S) - 1] == 1
    assert [second for second in range(1, len(written)) if written[second] > written[second - 1]] == [30, 90]
    keeper.save(state(9), NOW_S + len(written), is_last=True)
    assert place.writes == 4


def test_timers_restart_only_after_waiting_for_an_unavailable_server(
    server: FakeApiServer, config_map: StateConfigMap
) -> None:
    server.fail(MAP, Fault(status=500), Fault(status=500))
    keeper = StateKeeper(config_map, "c", 300)
    with pytest.raises(KubernetesError):
        keeper.load(NOW_S)
    keeper.save(state(), NOW_S)
    assert MAP not in server.documents
    keeper.save(state(), NOW_S)
    assert MAP in server.documents


def loop_of(rounds: Scripted, keeper: StateKeeper, now: Callable[[], float], lease: Any = None) -> Loop:
    settings = LoopSettings(0.01, 2, Backoff(0.01, 0.02))
    return Loop(rounds, settings, LoopServices(Health(60), lease, states=keeper), LoopClock(now, lambda: 0.0))


def test_a_loop_continues_from_the_state_of_the_one_before_it(
    config_map: StateConfigMap, server: FakeApiServer
) -> None:
    first, second = Scripted(), Scripted()
    run(loop_of(first, StateKeeper(config_map, "c", 300), lambda: NOW_S))
    assert first.resumed == [None]
    last = first.setup.planner.requests[-1]
    server.fail(MAP, Fault(status=503))
    run(loop_of(second, StateKeeper(config_map, "c", 300), lambda: NOW_S + 60))
    assert [one and one.scale_down.undone_drains.times for one in second.resumed] == [2], (
        "its second answer was the last"
    )
    assert last.state_version == "t1"


class Changing:
    """A Lease that a test makes lost or gained."""

    identity = "me"
    is_held = True


def test_only_a_leader_keeps_its_state_and_each_leadership_begins_with_what_was_kept() -> None:
    place, lease, rounds = InMemory(), Changing(), Scripted()
    loop = loop_of(rounds, StateKeeper(place, "c", 300), lambda: NOW_S, lease)

    def lose() -> None:
        lease.is_held = rounds.count > 1

    rounds.on_round = lose
    thread = threading.Thread(target=loop.run, daemon=True)
    thread.start()
    while rounds.count < 1 or loop._has_state:
        time.sleep(0.001)
    assert place.writes == 0, "by the end of the round another one led"
    StateKeeper(place, "c", 300).save(state(7), NOW_S)
    lease.is_held = True
    thread.join(LIMIT_S)
    assert not thread.is_alive()
    assert [one and len(one.scale_down.unneeded.node) for one in rounds.resumed] == [None, 28]


def test_the_file_of_a_state_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "state"
    StateFile(path).write(b"state")
    assert path.stat().st_mode & 0o777 == 0o600


PASSING = st.floats(0, 1000)
SETTING = st.just(0.0) | st.floats(-LARGEST_DRIFT_S, LARGEST_DRIFT_S) | st.floats(-1e6, 1e6)


@given(st.lists(st.tuples(PASSING, SETTING), min_size=1, max_size=20))
def test_a_timer_shows_what_the_monotonic_clock_does_but_for_drift(steps: list[tuple[float, float]]) -> None:
    wall_s, monotonic_s = 1_790_000_000.0, 7.0
    clock = LoopClock(lambda: wall_s, lambda: monotonic_s)
    state = plan_pb2.PlanState()
    state.scale_down.unneeded.time_ns = np.array([int(clock.look().now_s * 1e9)], "<i8").tobytes()
    drift_s = 0.0
    for passing_s, setting_s in steps:
        monotonic_s += passing_s
        wall_s += passing_s + setting_s
        now_s, step_s = clock.look()
        shift(state, step_s)
        drift_s += abs(setting_s - step_s)
        assert now_s == wall_s
        assert abs(setting_s - step_s) <= LARGEST_DRIFT_S + 1e-3
        (since_ns,) = np.frombuffer(state.scale_down.unneeded.time_ns, "<i8").tolist()
        assert abs((now_s - since_ns / 1e9) - (monotonic_s - 7.0)) <= drift_s + 1e-3


def test_timers_of_all_waves_are_shifted() -> None:
    state = plan_pb2.PlanState()
    for times in (state.scale_down.unneeded, state.scale_down.later_waves):
        times.time_ns = np.array([10**18], "<i8").tobytes()
    shift(state, 1.0)
    for times in (state.scale_down.unneeded, state.scale_down.later_waves):
        assert np.frombuffer(times.time_ns, "<i8").tolist() == [10**18 + 10**9]


def test_a_time_that_is_not_known_stays_unknown() -> None:
    state = plan_pb2.PlanState()
    state.scale_down.unremovable.time_ns = np.array([0, 5, 10**18], "<i8").tobytes()
    shift(state, -1.0)
    assert np.frombuffer(state.scale_down.unremovable.time_ns, "<i8").tolist() == [0, 1, 10**18 - 10**9]
