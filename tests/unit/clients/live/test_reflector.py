"""List and watch against a fake API server that misbehaves as real ones do."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol

import pytest
import urllib3
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from tests.builders.api_server import FakeApiServer, Fault
from tests.builders.examples import examples
from tests.builders.waiting import LIMIT_S
from trimtab.clients.live import reflector
from trimtab.clients.live.reflector import Reflector, ReflectorSettings, RelistBackoff, RelistBackoffSettings
from trimtab.common.kubernetes.api import Api
from trimtab.common.kubernetes.connection import Connection, ConnectionSettings
from trimtab.common.kubernetes.errors import ApiError
from trimtab.common.kubernetes.registry import WATCHED
from trimtab.k8s.v1 import core_pb2

PODS = "/api/v1/pods"
# A slow answer causes no failure, unless the server is made slow on purpose.
QUICK = ReflectorSettings(
    page_limit=2, list_timeout_s=LIMIT_S, watch_timeout_s=LIMIT_S, backoff=RelistBackoffSettings(0.01, 0.05)
)


class Names:
    """A sink that keeps the present objects by name, and its calls."""

    def __init__(self) -> None:
        self.pods: dict[str, str] = {}
        self.complete = 0
        self._before: set[str] = set()

    def put(self, kind: str, objects: Sequence[bytes]) -> None:
        for raw in objects:
            pod = core_pb2.Pod.FromString(raw)
            self.pods[pod.metadata.name] = pod.metadata.resource_version
            self._before.discard(pod.metadata.name)

    def drop(self, kind: str, raw: bytes) -> None:
        self.pods.pop(core_pb2.Pod.FromString(raw).metadata.name)

    def listing(self, kind: str) -> None:
        self._before = set(self.pods)

    def listed(self, kind: str) -> None:
        for name in self._before:
            del self.pods[name]
        self.complete += 1


class Running:
    """A reflector of pods in a thread."""

    def __init__(self, url: str, settings: ReflectorSettings = QUICK) -> None:
        self.sink, self.error = Names(), None
        api = Api(Connection(url, urllib3.PoolManager(), lambda: "", ConnectionSettings(connect_timeout_s=LIMIT_S)))
        self.reflector = Reflector(api, WATCHED["Pod"], self.sink, settings)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.reflector.run()
        except Exception as error:
            self.error = error

    def until(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + LIMIT_S
        while not condition():
            assert time.monotonic() < end, (self.sink.pods, self.reflector.trouble, self.error)
            time.sleep(0.005)

    def until_pods(self, *names: str) -> None:
        # A list has told its sink of its end before it notes that nothing was missed.
        self.until(lambda: self.reflector.stale_s > 0 and set(self.sink.pods) == set(names))

    def stop(self) -> None:
        self.reflector.stop()
        self.thread.join(LIMIT_S)
        assert not self.thread.is_alive()


def pod(name: str) -> core_pb2.Pod:
    built = core_pb2.Pod()
    built.metadata.name, built.metadata.namespace, built.metadata.uid = name, "default", f"uid-{name}"
    return built


@pytest.fixture
def server() -> Iterator[FakeApiServer]:
    with FakeApiServer() as started:
        for name in ("a", "b", "c", "d", "e"):
            started.put(PODS, pod(name))
        yield started


@pytest.fixture
def start(server: FakeApiServer) -> Iterator["Start"]:
    started: list[Running] = []

    def begin(settings: ReflectorSettings = QUICK) -> Running:
        started.append(Running(server.url, settings))
        return started[-1]

    yield begin
    for one in started:
        one.stop()


class Start(Protocol):
    def __call__(self, settings: ReflectorSettings = QUICK) -> Running: ...


def test_a_list_in_pages_is_followed_by_a_watch_that_misses_nothing(server: FakeApiServer, start: Start) -> None:
    running = start()
    running.until_pods("a", "b", "c", "d", "e")
    server.put(PODS, pod("f"))
    changed = pod("a")
    server.put(PODS, changed)
    server.remove(PODS, "default/b")
    running.until_pods("a", "c", "d", "e", "f")
    assert running.sink.pods["a"] == changed.metadata.resource_version
    assert server.count(PODS, watch=False) == 3
    assert running.reflector.lists == 1


def test_a_watch_that_ends_is_opened_again_at_the_last_version_seen(server: FakeApiServer, start: Start) -> None:
    running = start()
    running.until_pods("a", "b", "c", "d", "e")
    server.put(PODS, pod("f"))
    running.until_pods("a", "b", "c", "d", "e", "f")
    server.cut_watches()
    server.put(PODS, pod("g"))
    running.until_pods("a", "b", "c", "d", "e", "f", "g")
    assert running.reflector.lists == 1


def test_a_bookmark_moves_the_version_on_so_that_compaction_costs_no_list(server: FakeApiServer, start: Start) -> None:
    running = start()
    running.until_pods("a", "b", "c", "d", "e")
    server.bookmark(PODS)
    marked = server.version
    running.until(lambda: running.reflector._version == str(marked))
    server.compact()
    server.cut_watches()
    server.put(PODS, pod("f"))
    running.until_pods("a", "b", "c", "d", "e", "f")
    assert running.reflector.lists == 1


def test_a_version_that_is_too_old_leads_to_a_new_list_that_forgets_what_is_gone(
    server: FakeApiServer, start: Start
) -> None:
    running = start()
    running.until_pods("a", "b", "c", "d", "e")
    running.until(lambda: running.reflector.watches == 1)
    compacted = threading.Event()
    server.fail(PODS, Fault(held=compacted, watch=True))
    server.cut_watches()
    running.until(lambda: server.count(PODS, watch=True) == 2)
    server.remove(PODS, "default/a")
    server.put(PODS, pod("z"))
    server.compact()
    compacted.set()
    running.until_pods("b", "c", "d", "e", "z")
    assert running.reflector.lists == 2


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault(status=429, reason="TooManyRequests"), id="too many requests"),
        pytest.param(Fault(status=500, reason="InternalError"), id="internal error"),
        pytest.param(Fault(status=503), id="unavailable"),
        pytest.param(Fault(status=401, reason="Unauthorized"), id="token expired"),
        pytest.param(Fault(), id="connection closed without an answer"),
        pytest.param(Fault(cut_after=40), id="answer cut in the middle"),
        pytest.param(Fault(body=b"<html>gateway</html>"), id="an answer of something else"),
        pytest.param(Fault(body=b"k8s\0\xff\xff\xff"), id="broken protobuf"),
        pytest.param(Fault(delay_s=0.8), id="slower than the time allowed"),
    ],
)
def test_a_list_that_fails_for_now_is_requested_again(server: FakeApiServer, start: Start, fault: Fault) -> None:
    server.fail(PODS, fault._replace(watch=False), fault._replace(watch=False))
    running = start(replace(QUICK, list_timeout_s=0.5) if fault.delay_s else QUICK)
    running.until_pods("a", "b", "c", "d", "e")
    assert running.reflector.failures >= 1
    assert running.reflector.trouble == ""


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault(status=429, reason="TooManyRequests"), id="too many requests"),
        pytest.param(Fault(status=500, reason="InternalError"), id="internal error"),
        pytest.param(Fault(), id="connection closed without an answer"),
        pytest.param(Fault(cut_after=10), id="cut in the first frame"),
        pytest.param(Fault(cut_after=150), id="cut in a later frame"),
    ],
)
def test_a_watch_that_fails_for_now_continues_where_it_was(server: FakeApiServer, start: Start, fault: Fault) -> None:
    server.fail(PODS, fault._replace(watch=True), fault._replace(watch=True))
    running = start()
    for name in ("f", "g", "h"):
        server.put(PODS, pod(name))
    running.until_pods("a", "b", "c", "d", "e", "f", "g", "h")
    server.remove(PODS, "default/h")
    running.until_pods("a", "b", "c", "d", "e", "f", "g")
    assert running.reflector.lists == 1


def test_a_page_token_that_is_too_old_starts_the_list_again(server: FakeApiServer, start: Start) -> None:
    server.expired_pages = 1
    running = start()
    running.until_pods("a", "b", "c", "d", "e")
    assert running.reflector.failures == 1


def test_the_server_is_given_the_time_it_asks_for(server: FakeApiServer, start: Start) -> None:
    server.fail(PODS, Fault(status=429, reason="TooManyRequests", retry_after=1))
    begun = time.monotonic()
    running = start()
    running.until_pods("a", "b", "c", "d", "e")
    assert time.monotonic() - begun >= 1  # the hint, not a speed


def test_a_forbidden_list_ends_the_attempt_at_once(server: FakeApiServer, start: Start) -> None:
    server.fail(PODS, Fault(status=403, reason="Forbidden"))
    running = start()
    running.until(lambda: not running.thread.is_alive())
    assert isinstance(running.error, ApiError)
    assert running.error.is_forbidden


def test_stopping_wakes_a_watch_that_waits(server: FakeApiServer, start: Start) -> None:
    running = start()
    running.until(lambda: server.count(PODS, watch=True) == 1)
    running.stop()
    assert running.error is None


def test_how_long_changes_have_been_missed_counts_from_the_last_evidence(server: FakeApiServer, start: Start) -> None:
    running = start()

    def evidence_s() -> float:
        """Return the time of the last evidence, or slightly earlier."""
        return time.monotonic() - running.reflector.stale_s

    running.until_pods("a", "b", "c", "d", "e")
    server.fail(PODS, *[Fault(status=500, watch=True)] * 3)
    server.cut_watches()
    running.until(lambda: "500" in running.reflector.trouble)
    last_s, before_s = evidence_s(), running.reflector.stale_s
    running.until(lambda: running.reflector.stale_s > before_s)
    running.until(lambda: not server.faults[PODS])
    server.bookmark(PODS)
    running.until(lambda: running.reflector.trouble == "" and evidence_s() > last_s)


def test_watches_that_expire_at_once_lead_to_fewer_and_fewer_lists_and_each_is_logged(
    server: FakeApiServer, start: Start
) -> None:
    server.fail(PODS, *[Fault(status=410, reason="Expired", watch=True)] * 1000)
    with capture_logs() as lines:
        running = start(replace(QUICK, backoff=RelistBackoffSettings(0.005, 0.04)))
        running.until(lambda: running.reflector.lists >= 6)
        running.stop()
    pauses = [line["pause_s"] for line in lines if line["event"] == "cluster_retry"]
    assert len(pauses) >= running.reflector.lists - 1
    bounds = [0.005, 0.01, 0.02, 0.04, 0.04]
    assert all(bound <= pause <= 2 * bound for bound, pause in zip(bounds, pauses, strict=False))
    assert {line["kind"] for line in lines} == {"Pod"}
    assert all("410" in line["error"] for line in lines)


def test_pages_that_always_expire_do_not_keep_a_list_from_its_end(server: FakeApiServer, start: Start) -> None:
    server.expired_pages = 1_000_000
    running = start()
    running.until_pods("a", "b", "c", "d", "e")
    assert running.reflector.lists == 1
    # The next one is in pages again.
    before = len(server.requests)
    server.expired_pages = 0
    server.fail(PODS, Fault(status=410, reason="Expired", watch=True))
    server.cut_watches()
    running.until(lambda: running.reflector.lists == 2)
    assert any("continue" in query for _, _, query in server.requests[before:])


def test_watches_that_bring_changes_and_end_at_once_continue_without_a_pause(
    server: FakeApiServer, start: Start
) -> None:
    with capture_logs() as lines:
        running = start()
        running.until_pods("a", "b", "c", "d", "e")
        running.until(lambda: running.reflector.watches == 1)
        for count, name in enumerate("fgh", 1):
            server.put(PODS, pod(name))
            server.cut_watches()
            running.until(lambda name=name: name in running.sink.pods)
            running.until(lambda count=count: running.reflector.watches > count)
    assert running.reflector.failures == 0
    assert running.reflector.lists == 1
    assert lines == []


def test_a_watch_that_brings_a_bookmark_and_ends_at_once_is_opened_again_after_a_pause(
    server: FakeApiServer, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However long the test takes to end it.
    monkeypatch.setattr(reflector, "SHORT_WATCH_S", LIMIT_S)
    running = start()
    running.until_pods("a", "b", "c", "d", "e")
    for count in range(1, 4):
        server.bookmark(PODS)
        running.until(lambda: running.reflector._version == str(server.version))
        server.cut_watches()
        running.until(lambda count=count: running.reflector.failures == count)
    assert running.reflector.lists == 1


@pytest.mark.parametrize("silent", [True, "trickle"], ids=["not a byte", "bytes, but no event"])
def test_a_watch_that_is_open_but_silent_is_replaced_by_a_list(
    server: FakeApiServer, start: Start, silent: bool | str
) -> None:
    server.fail(PODS, *[Fault(silent=silent, watch=True)] * 1000)
    with capture_logs() as lines:
        running = start(replace(QUICK, silence_s=0.05, watch_timeout_s=1.1 if silent == "trickle" else 30))
        running.until_pods("a", "b", "c", "d", "e")
        server.put(PODS, pod("f"))
        running.until_pods("a", "b", "c", "d", "e", "f")
    assert running.reflector.lists >= 2
    # On a busy machine a watch may not even be opened in that time, which counts as a failure.
    late = [line for line in lines if line["event"] == "cluster_retry"]
    assert all("timed out" in line["error"] for line in late)
    assert {line["event"] for line in lines if line not in late} == {"watch_silent"}


def test_a_silent_watch_does_not_count_as_fresh(server: FakeApiServer, start: Start) -> None:
    server.fail(PODS, Fault(silent="trickle", watch=True))
    running = start()
    running.until(lambda: running.reflector.watches == 1)
    running.until(lambda: running.reflector.stale_s > 0.1)
    assert running.reflector.lists == 1


def test_a_server_cannot_ask_for_more_than_a_bounded_pause(server: FakeApiServer, start: Start) -> None:
    server.fail(PODS, Fault(status=429, reason="TooManyRequests", retry_after=10**30))
    with capture_logs() as lines:
        running = start(replace(QUICK, max_retry_after_s=0.2))
        running.until_pods("a", "b", "c", "d", "e")
    assert [line["pause_s"] for line in lines] == [0.2]


def test_a_watch_that_keeps_failing_leads_to_a_list(server: FakeApiServer, start: Start) -> None:
    server.fail(PODS, *[Fault(status=504, reason="Timeout", message="Too large resource version", watch=True)] * 5)
    running = start()
    running.until(lambda: running.reflector.lists == 2)
    server.put(PODS, pod("f"))
    running.until_pods("a", "b", "c", "d", "e", "f")


@given(
    st.lists(st.tuples(st.floats(0, 200), st.floats(0, 1, exclude_max=True)), max_size=20),
    st.floats(0.001, 1),
    st.floats(1, 50),
)
def test_pauses_double_up_to_a_bound_and_begin_again_after_a_time_without_any(
    calls: list[tuple[float, float]], first_s: float, longest_s: float
) -> None:
    now_s, drawn = 1000.0, 0.0
    backoff = RelistBackoff(RelistBackoffSettings(first_s, longest_s, 120.0), lambda: now_s, lambda: drawn)
    in_a_row = 0
    for step, (since_s, draw) in enumerate(calls):
        before_s, drawn = now_s, draw
        now_s += since_s
        in_a_row = 0 if step == 0 or now_s - before_s > 120 else in_a_row + 1
        bound_s = min(first_s * 2**in_a_row, longest_s)
        assert backoff.pause_s() == pytest.approx(bound_s * (1 + draw))


FAULTS = st.sampled_from(
    [
        Fault(status=429, reason="TooManyRequests"),
        Fault(status=410, reason="Expired"),
        Fault(status=500),
        Fault(),
        Fault(cut_after=0),
        Fault(cut_after=3),
        Fault(cut_after=90),
        Fault(cut_after=200),
        Fault(body=b"<html>gateway</html>", watch=False),
        Fault(body=b"k8s\0\xff\xff", watch=False),
    ]
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from("abcdefgh")),
        st.tuples(st.just("remove"), st.sampled_from("abcdefgh")),
        st.tuples(st.just("fail"), st.lists(FAULTS, min_size=1, max_size=3)),
        st.tuples(st.sampled_from(["bookmark", "compact", "cut", "expire page", "pause"]), st.none()),
    ),
    max_size=25,
)


def take_step(server: FakeApiServer, step: str, argument: Any) -> None:
    """Make something happen to the server."""
    match step:
        case "put":
            server.put(PODS, pod(argument))
        case "remove" if f"default/{argument}" in server.objects[PODS]:
            server.remove(PODS, f"default/{argument}")
        case "fail":
            server.fail(PODS, *argument)
        case "bookmark":
            server.bookmark(PODS)
        case "compact":
            server.compact()
        case "cut":
            server.cut_watches()
        case "expire page":
            server.expired_pages = 1
        case "pause":
            time.sleep(0.01)


@examples(25, 12)
@given(STEPS)
def test_whatever_happens_to_the_server_what_is_known_is_in_the_end_what_there_is(
    steps: list[tuple[str, Any]],
) -> None:
    with FakeApiServer() as server:
        for name in ("a", "b", "c"):
            server.put(PODS, pod(name))
        running = Running(server.url)
        for step in steps:
            take_step(server, *step)

        def expected() -> dict[str, str]:
            return {key.partition("/")[2]: str(version) for key, (version, _) in server.objects[PODS].items()}

        running.until(lambda: running.sink.complete > 0 and running.sink.pods == expected())
        running.stop()
        assert running.error is None
