"""Every store gives the same guarantees; a broken or foreign store is reported."""

import sqlite3
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.builders.postgresql import missing, running_postgresql
from trimtab.actuator.store.journal import Journal
from trimtab.actuator.store.records import MemoryStore, Record, Store, StoreConflictError, StoreError
from trimtab.actuator.store.sql import SqlStore, sqlite_url, unpack
from trimtab.actuator.tracker.events import PodsEvicted, SetAccepted
from trimtab.actuator.tracker.states import PodRef, Retention
from trimtab.actuator.tracker.transitions import ImpossibleEventError

Opener = Callable[[], Store]
EVENT = PodsEvicted("n1", (PodRef("default", "web-1", "uid-1"),))


def records(*payloads: str) -> list[Record]:
    return [Record(number, payload.encode()) for number, payload in enumerate(payloads)]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Yield the URL of a PostgreSQL server; skip the test without one, unless .ci/e2e requires one."""
    reason = missing()
    if reason:
        pytest.skip(reason)
    with running_postgresql() as url:
        yield url


def new_database(server: str) -> str:
    """Return the URL of a separate empty database."""
    name = f"t{uuid.uuid4().hex}"
    engine = sa.create_engine(server.replace("postgresql://", "postgresql+psycopg://"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    engine.dispose()
    return server.removesuffix("postgres") + name


@pytest.fixture(params=["sqlite", "postgresql"])
def shared_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of a database that several processes may open."""
    if request.param == "sqlite":
        return sqlite_url(tmp_path / "store.sqlite")
    return new_database(request.getfixturevalue("server"))


@pytest.fixture(params=["sqlite", "list", "postgresql"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    if request.param == "sqlite":
        return lambda: SqlStore(sqlite_url(tmp_path / "store.sqlite"))
    if request.param == "postgresql":
        url = new_database(request.getfixturevalue("server"))
        return lambda: SqlStore(url)
    kept = MemoryStore()
    return lambda: kept


def test_an_empty_store_holds_nothing(reopen: Opener) -> None:
    store = reopen()
    history = store.load()
    store.close()
    assert (history.snapshot, history.records, history.last_seq) == (None, (), 0)


def test_what_was_appended_is_there_after_reopening(reopen: Opener) -> None:
    store = reopen()
    store.append(1, records("a", "b"))
    store.append(3, records("ç"))
    store.close()
    store = reopen()
    assert [record.payload.decode() for record in store.load().records] == ["a", "b", "ç"]
    assert store.load().last_seq == 3
    store.close()


def test_a_used_number_reveals_another_writer_and_nothing_is_written(reopen: Opener) -> None:
    store = reopen()
    store.append(1, records("a", "b"))
    with pytest.raises(StoreConflictError, match="another process"):
        store.append(2, records("x", "y"))
    assert [record.payload for record in store.load().records] == [b"a", b"b"]
    store.close()


def test_a_snapshot_replaces_the_records_before_it(reopen: Opener) -> None:
    store = reopen()
    store.append(1, records("a", "b", "c"))
    store.compact(2, b"ab")
    store.compact(3, b"abc")
    store.append(4, records("d"))
    store.close()
    store = reopen()
    history = store.load()
    assert (history.snapshot, history.snapshot_seq, history.last_seq) == (b"abc", 3, 4)
    assert [record.payload for record in history.records] == [b"d"]
    store.close()


@contextmanager
def between_the_reads(store: SqlStore, happens: Callable[[], None]) -> Iterator[None]:
    """Make something happen after the store has read the snapshot, and before it reads the records."""

    def after(_conn: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if "trimtab_snapshot" in statement:
            happens()

    sa.event.listen(store._engine, "after_cursor_execute", after)
    try:
        yield
    finally:
        sa.event.remove(store._engine, "after_cursor_execute", after)


def test_a_follower_reads_one_moment_while_the_leader_compacts_the_log(shared_url: str) -> None:
    leader, follower = SqlStore(shared_url), SqlStore(shared_url)
    leader.append(1, records("a", "b", "c"))
    with between_the_reads(follower, lambda: leader.compact(2, b"ab")):
        history = follower.load()
    assert (history.snapshot, [record.payload for record in history.records]) == (None, [b"a", b"b", b"c"])
    history = follower.load()
    assert (history.snapshot, [record.payload for record in history.records]) == (b"ab", [b"c"])
    # The leader is not kept from writing by a follower that has read.
    leader.append(4, records("d"))
    leader.close()
    follower.close()


def test_only_the_last_process_to_take_over_a_store_can_write(shared_url: str) -> None:
    old, new = SqlStore(shared_url), SqlStore(shared_url)
    assert old.take_over() == 1
    old.append(1, records("a"))
    assert new.take_over() == 2
    for forbidden in (lambda: old.append(2, records("x")), lambda: old.compact(1, b"x"), old.confirm):
        with pytest.raises(StoreConflictError, match="taken over this store"):
            forbidden()
    new.append(2, records("b"))
    new.confirm()
    assert [record.payload for record in new.load().records] == [b"a", b"b"]
    old.close()
    new.close()


def test_a_follower_sees_what_the_leader_writes_beyond_a_compaction(shared_url: str) -> None:
    leading, following = Journal(SqlStore(shared_url), compact_after=3), Journal(SqlStore(shared_url))
    for number in range(7):
        leading.handle(PodsEvicted("n1", (PodRef("default", f"web-{number}", f"uid-{number}"),)), number)
        leading.commit()
        following.refresh()
        assert following.tracker.dump() == leading.tracker.dump()
    leading.close()
    following.close()


def open_and_close(path: Path) -> None:
    SqlStore(sqlite_url(path)).close()


SECRET_URLS = [
    pytest.param("postgresql://user:s3cret@127.0.0.1:1/db", id="before the host"),
    pytest.param("postgresql://user@127.0.0.1:1/db?password=s3cret", id="as a parameter"),
    pytest.param("postgresql://user@127.0.0.1:1/db?sslpassword=s3cret&sslmode=none%20such", id="of the key"),
    pytest.param("mysql://user:s3cret@host/db", id="of a database that is not supported"),
    pytest.param("postgresql://user:s3cret@host:port/db", id="in a URL that is none"),
    pytest.param("s3cret", id="in what is not a URL at all"),
]


@pytest.mark.parametrize("url", SECRET_URLS)
def test_no_error_repeats_a_password_of_the_url(url: str) -> None:
    with pytest.raises(StoreError) as caught:
        SqlStore(url)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:"])
def test_a_store_in_memory_is_refused(url: str) -> None:
    with pytest.raises(StoreError, match="loses everything at exit"):
        SqlStore(url)


def delete(path: Path) -> None:
    path.unlink()


def replace(path: Path) -> None:
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content)


@pytest.mark.parametrize("name", ["store.sqlite", "store.sqlite-wal"])
@pytest.mark.parametrize("strike", [delete, replace])
def test_the_loss_of_a_store_is_noticed_by_reads_and_writes(
    tmp_path: Path, name: str, strike: Callable[[Path], None]
) -> None:
    store = SqlStore(sqlite_url(tmp_path / "store.sqlite"))
    journal = Journal(store)
    journal.handle(EVENT, 1)
    journal.commit()
    journal.check()
    strike(tmp_path / name)
    with pytest.raises(StoreError, match="deleted or replaced"):
        journal.check()
    with pytest.raises(StoreError, match="deleted or replaced"):
        store.append(2, records("b"))
    store.close()


def test_a_store_lost_while_an_event_is_written_does_not_accept_it(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    store = SqlStore(sqlite_url(path))
    sa.event.listen(store._engine, "commit", lambda _connection: path.unlink())
    with pytest.raises(StoreError, match="deleted or replaced"):
        store.append(1, records("a"))
    store.close()


def test_sqlite_writes_to_the_disk_before_a_commit_returns(tmp_path: Path) -> None:
    store = SqlStore(sqlite_url(tmp_path / "store.sqlite"))
    with store._engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2  # FULL
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
    store.close()


def test_a_file_that_is_not_a_database_is_refused_with_advice(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    path.write_bytes(b"not a database at all, but long enough to look" * 100)
    with pytest.raises(StoreError, match="restore it from a backup"):
        open_and_close(path)


def test_another_applications_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE customers (name TEXT)")
    connection.close()
    with pytest.raises(StoreError, match="customers"):
        open_and_close(path)
    with sqlite3.connect(path) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    connection.close()
    assert tables == [("customers",)]


def test_a_store_of_another_layout_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    open_and_close(path)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE trimtab_store SET value = '99' WHERE key = 'layout'")
    connection.close()
    with pytest.raises(StoreError, match="layout '99'"):
        open_and_close(path)


def test_a_missing_event_is_found(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    store = SqlStore(sqlite_url(path))
    store.append(1, records("a", "b", "c"))
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM trimtab_event WHERE seq = 2")
    connection.close()
    with pytest.raises(StoreError, match="event 2 is missing"):
        store.load()
    store.close()


def test_a_directory_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="nowhere"):
        open_and_close(tmp_path / "nowhere" / "store.sqlite")


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        pytest.param('{"event":"drained","node":"n1"', "event 1 of the store is damaged", id="damaged"),
        pytest.param('{"event":"drained","node":"n1"}', "n1 is not being deleted", id="impossible"),
    ],
)
def test_an_event_that_cannot_be_replayed_is_named(payload: str, told: str) -> None:
    store = MemoryStore()
    store.append(1, records(payload))
    with pytest.raises(StoreError, match=told):
        Journal(store)
    store.close()


def test_a_journal_continues_from_its_snapshot(reopen: Opener) -> None:
    journal = Journal(reopen(), compact_after=2)
    for number in range(5):
        event = PodsEvicted("n1", (PodRef("default", f"web-{number}", f"uid-{number}"),))
        journal.handle(event, number)
        journal.commit()
    dumped = journal.tracker.dump()
    journal.close()
    store = reopen()
    assert store.load().snapshot_seq == 4
    assert Journal(store).tracker.dump() == dumped
    store.close()


def test_a_snapshot_is_packed_and_one_of_an_older_build_is_read(tmp_path: Path) -> None:
    big = b'{"name":"deployment-7"}' * 10_000
    store = SqlStore(sqlite_url(tmp_path / "store.sqlite"))
    store.append(1, records("a"))
    store.compact(1, big)
    assert store.load().snapshot == big
    store.close()
    with sqlite3.connect(tmp_path / "store.sqlite") as database:
        ((size,),) = database.execute("SELECT length(payload) FROM trimtab_snapshot")
        assert size < len(big) / 10
        database.execute("UPDATE trimtab_snapshot SET payload = ?", (big.decode(),))
    database.close()
    store = SqlStore(sqlite_url(tmp_path / "store.sqlite"))
    assert store.load().snapshot == big
    store.close()


@pytest.mark.parametrize("payload", ["zstd:AAAA", "zstd:?", "zstd:"], ids=["no frame", "no base64", "nothing"])
def test_a_damaged_snapshot_is_reported_with_advice(payload: str) -> None:
    with pytest.raises(StoreError, match="restore the database from a backup"):
        unpack(payload)


def test_a_store_drops_finished_work_and_stays_small(tmp_path: Path) -> None:
    """Its size is bounded by what is remembered, not by what has happened."""
    retention = Retention(finished_s=10, evictions_s=10)
    journal = Journal(SqlStore(sqlite_url(tmp_path / "store.sqlite")), retention, compact_after=100)
    rows = []
    for number in range(1200):
        journal.handle(PodsEvicted("n1", (PodRef("default", f"web-{number}", f"uid-{number}"),)), number * 100)
        journal.commit()
        if number % 200 == 199:
            with sqlite3.connect(tmp_path / "store.sqlite") as database:
                ((count,),) = database.execute("SELECT count(*) FROM trimtab_event")
                ((size,),) = database.execute("SELECT sum(length(payload)) FROM trimtab_snapshot")
            database.close()
            rows.append((count, size))
    journal.close()
    assert all(count <= 100 for count, _ in rows)
    assert max(size for _, size in rows) <= 1.1 * rows[0][1], "snapshots grow"
    again = Journal(SqlStore(sqlite_url(tmp_path / "store.sqlite")), retention)
    assert len(again.tracker.data.evictions) == 101
    again.close()


def test_events_are_not_in_the_store_before_the_commit(reopen: Opener) -> None:
    store = reopen()
    journal = Journal(store)
    journal.handle(EVENT, 0)
    assert store.load().records == ()
    journal.commit()
    assert len(store.load().records) == 1
    journal.close()


def test_an_impossible_event_is_not_written(reopen: Opener) -> None:
    store = reopen()
    journal = Journal(store)
    accepted = SetAccepted("r", "d", (), (), 1.0)
    journal.handle(accepted, 0)
    from trimtab.actuator.tracker.events import Drained

    with pytest.raises(ImpossibleEventError):
        journal.handle(Drained("n1"), 0)
    journal.commit()
    assert len(store.load().records) == 1
    journal.close()


def test_after_a_failed_write_the_journal_refuses_all_work() -> None:
    class Full(MemoryStore):
        def append(self, first_seq: int, records: object) -> None:
            raise StoreError("disk full")

    journal = Journal(Full())
    journal.handle(EVENT, 0)
    for _ in range(2):
        with pytest.raises(StoreError, match="disk full"):
            journal.commit()
    with pytest.raises(StoreError, match="disk full"):
        journal.handle(EVENT, 0)


def modes(directory: Path) -> dict[str, str]:
    return {path.name: oct(path.stat().st_mode & 0o777) for path in sorted(directory.iterdir())}


def test_a_stores_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    store = SqlStore(sqlite_url(tmp_path / "store.sqlite"))
    store.append(1, records("a"))
    assert modes(tmp_path) == dict.fromkeys(["store.sqlite", "store.sqlite-shm", "store.sqlite-wal"], "0o600")
    store.close()


def test_an_existing_store_is_taken_from_others_and_stays_with_its_group(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    SqlStore(sqlite_url(path)).close()
    path.chmod(0o664)
    store = SqlStore(sqlite_url(path))
    store.append(1, records("a"))
    assert set(modes(tmp_path).values()) == {"0o660"}
    store.close()


def test_a_database_of_another_application_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE theirs (a)")
    other.close()
    path.chmod(0o644)
    with pytest.raises(StoreError, match="another application"):
        SqlStore(sqlite_url(path))
    assert modes(tmp_path)["other.sqlite"] == "0o644"
