"""A database that hangs, or a network that loses everything, holds nobody for ever."""

import threading
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from tests.builders.postgresql import missing, running_postgresql
from tests.builders.tcp_proxy import TcpProxy
from tests.builders.waiting import LIMIT_S
from trimtab.actuator.runner.clock import Clock
from trimtab.actuator.runner.event_processor import EventProcessor
from trimtab.actuator.store.journal import Journal
from trimtab.actuator.store.records import Record, StoreError
from trimtab.actuator.store.sql import CONNECT_S, KEEP_ALIVE, SILENCE_S, SqlStore, _wait
from trimtab.actuator.tracker.events import NodesAwaited

RECORDS = [Record(1, b"a")]


class Network:
    """A database behind a network that can lose everything; its clock stands still unless that happens."""

    def __init__(self, url: str, proxy: TcpProxy) -> None:
        self.url, self.proxy = url, proxy
        self._now_s, self._is_lost = 0.0, False

    def lose_everything(self) -> None:
        self.proxy.hold()
        self._is_lost = True

    def recover(self) -> None:
        self._is_lost = False
        self.proxy.heal()

    def clock(self) -> float:
        self._now_s += SILENCE_S if self._is_lost else 0.0
        return self._now_s

    def store(self) -> SqlStore:
        return SqlStore(self.url, self.clock)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    reason = missing()
    if reason:
        pytest.skip(reason)
    with running_postgresql() as url:
        yield url


@pytest.fixture
def network(server: str) -> Iterator[Network]:
    url = sa.make_url(server)
    engine = sa.create_engine(url.set(drivername="postgresql+psycopg"))
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    engine.dispose()
    assert url.port
    with TcpProxy(url.port) as proxy:
        # Two seconds are the least.
        through = url.set(port=proxy.port, query={"connect_timeout": "2"})
        yield Network(through.render_as_string(hide_password=False), proxy)


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda store: store.load(), id="load"),
        pytest.param(lambda store: store.append(1, RECORDS), id="append"),
        pytest.param(lambda store: store.compact(1, b"{}"), id="compact"),
        pytest.param(lambda store: store.take_over(), id="take over"),
        pytest.param(lambda store: store.confirm(), id="confirm"),
    ],
)
def test_a_call_ends_when_the_database_is_silent_and_the_next_one_connects_again(
    network: Network, call: Callable[[SqlStore], Any]
) -> None:
    store = network.store()
    store.take_over()
    network.lose_everything()
    with pytest.raises(StoreError, match=r"(has not answered for|timeout).*see that the database can be reached"):
        call(store)
    network.recover()
    call(store)
    store.close()


def test_a_store_does_not_wait_for_ever_while_it_is_opened(network: Network) -> None:
    network.lose_everything()
    with pytest.raises(StoreError, match="timeout"):
        SqlStore(network.url)


def test_a_connection_has_limits_that_the_url_overrides(network: Network) -> None:
    plain = network.url.partition("?")[0]
    for more, connect_s in (("", CONNECT_S), ("?connect_timeout=60", 60)):
        store = SqlStore(plain + more)
        with store._engine.connect() as connection:
            driver = connection.connection.driver_connection
            assert driver is not None
            told = driver.info.get_parameters()
        store.close()
        assert told["connect_timeout"] == str(connect_s)
        assert {key: int(told[key]) for key in KEEP_ALIVE if key != "keepalives"} == {
            key: value for key, value in KEEP_ALIVE.items() if key != "keepalives"
        }


def test_only_silence_counts_not_the_time_for_the_whole_answer() -> None:
    now_s = 0.0

    def statement() -> Generator[int, int, str]:
        """Wait until the server has sent a part, five times."""
        for _ in range(5):
            while not (yield 1):
                pass
        return "rows"

    def wait(work: Generator[int, int, str]) -> str:
        """Find nothing to read but shortly before the limit."""
        nonlocal now_s
        next(work)
        while True:
            for passed_s, ready in ((SILENCE_S - 1, 0), (0.5, 1)):
                now_s += passed_s
                try:
                    work.send(ready)
                except StopIteration as end:
                    return str(end.value)

    assert _wait(None, wait, AssertionError, lambda: now_s, statement()) == "rows"
    assert now_s > 4 * SILENCE_S


def test_all_who_wait_for_a_database_that_hangs_get_an_answer_and_the_process_ends(network: Network) -> None:
    store = network.store()
    ended = threading.Event()
    processor = EventProcessor(Journal(store), Clock(lambda: 1.0, lambda: 1.0), ended.set)
    processor.submit(NodesAwaited("g0"))
    network.lose_everything()
    errors: list[Exception] = []

    def submit(group: str) -> None:
        try:
            processor.submit(NodesAwaited(group))
        except StoreError as error:
            errors.append(error)

    callers = [threading.Thread(target=submit, args=(f"g{number}",)) for number in range(1, 4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(LIMIT_S)
    assert len(errors) == len(callers)
    assert ended.is_set()
    assert processor.broken is not None
    store.close()


def test_another_driver_is_refused() -> None:
    reason = missing()
    if reason:
        pytest.skip(reason)
    with pytest.raises(StoreError, match="cannot be used"):
        SqlStore("postgresql+pg8000://user:s3cret@127.0.0.1/db")
