"""The store in a SQL database: SQLite by default, PostgreSQL by URL.

Decides how records lie in tables and that each append is one transaction. SQLite runs in WAL mode with
`synchronous=FULL`: a commit is on the disk when it returns. Never looks into records. A
database of another application or layout is refused, not changed.
"""

import base64
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
import zstandard
from sqlalchemy import event as sa_event

from actuator.store.records import History, Record, StoreConflictError, StoreError

APPLICATION = "trimtab-actuator"
LAYOUT = "1"

_metadata = sa.MetaData()
_about = sa.Table(
    "trimtab_store",
    _metadata,
    sa.Column("key", sa.String(64), primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)
_events = sa.Table(
    "trimtab_event",
    _metadata,
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("time_ms", sa.BigInteger, nullable=False),
    sa.Column("payload", sa.Text, nullable=False),
)
_snapshots = sa.Table(
    "trimtab_snapshot",
    _metadata,
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("payload", sa.Text, nullable=False),
)
# What packed text begins with: base64 of zstandard.
PACKED = "zstd:"
EPOCH = "epoch"
# Any number, as long as it stays the same.
OPEN_LOCK = 7_487_645
_IS_EPOCH = _about.c.key == EPOCH
# Made once: it is run for every eviction.
_INSERT_EVENTS = sa.insert(_events)


class SqlStore:
    """A `Store` in a SQL database."""

    def __init__(self, url: str) -> None:
        """Open or create. `url` is SQLAlchemy's. Raises `StoreError`."""
        try:
            self._shown = sa.make_url(url).render_as_string(hide_password=True)
            self._engine = sa.create_engine(_with_driver(url), pool_pre_ping=not url.startswith("sqlite"))
        except (sa.exc.ArgumentError, ImportError) as error:
            raise StoreError(f"the store's URL cannot be used: {error}") from error
        # What this process has taken the store over with; None = it is the only one by other means.
        self._epoch: str | None = None
        if self._engine.dialect.name == "sqlite":
            sa_event.listen(self._engine, "connect", _make_sqlite_durable)
        if self._engine.dialect.name == "postgresql":
            sa_event.listen(self._engine, "connect", _make_postgresql_patient)
        try:
            with self._errors("open"):
                self._open()
        except BaseException:
            self._engine.dispose()
            raise

    def load(self) -> History:
        """Read everything."""
        with self._errors("read"), self._engine.connect() as connection:
            snapshot = connection.execute(
                sa.select(_snapshots.c.seq, _snapshots.c.payload).order_by(_snapshots.c.seq.desc()).limit(1)
            ).first()
            seq = snapshot.seq if snapshot else 0
            rows = connection.execute(sa.select(_events).where(_events.c.seq > seq).order_by(_events.c.seq)).all()
        for position, row in enumerate(rows, start=seq + 1):
            if row.seq != position:
                raise StoreError(
                    f"{self._shown}: event {position} is missing; restore the database from a copy, or move it away"
                    " and look at every tainted node by hand"
                )
        records = tuple(Record(row.time_ms, row.payload.encode()) for row in rows)
        return History(unpack(snapshot.payload) if snapshot else None, seq, records)

    def append(self, first_seq: int, records: Sequence[Record]) -> None:
        """Write records in one transaction."""
        rows = [
            {"seq": seq, "time_ms": record.time_ms, "payload": record.payload.decode()}
            for seq, record in enumerate(records, start=first_seq)
        ]
        with self._errors("write"), self._engine.begin() as connection:
            self._hold(connection)
            connection.execute(_INSERT_EVENTS, rows)

    def compact(self, seq: int, snapshot: bytes) -> None:
        """Replace all records up to `seq` by a snapshot."""
        with self._errors("compact"), self._engine.begin() as connection:
            self._hold(connection)
            connection.execute(sa.insert(_snapshots), [{"seq": seq, "payload": pack(snapshot)}])
            connection.execute(sa.delete(_snapshots).where(_snapshots.c.seq < seq))
            connection.execute(sa.delete(_events).where(_events.c.seq <= seq))

    def take_over(self) -> int:
        """Become the only writer: from now on everybody who took over before is refused. Returns the epoch.

        Call before `load`: nothing of theirs can come after it.
        """
        with self._errors("take over"), self._engine.begin() as connection:
            # The update comes first: it takes the lock that the reading needs.
            number = sa.cast(sa.cast(_about.c.value, sa.BigInteger) + 1, sa.Text)
            if connection.execute(sa.update(_about).where(_IS_EPOCH).values(value=number)).rowcount == 0:
                connection.execute(sa.insert(_about), [{"key": EPOCH, "value": "1"}])
            epoch = str(connection.execute(sa.select(_about.c.value).where(_IS_EPOCH)).scalar_one())
        self._epoch = epoch
        return int(epoch)

    def confirm(self) -> None:
        """Raise `StoreConflictError` when another process has taken the store over, `StoreError` when it is away."""
        if self._epoch is None:
            return
        with self._errors("read"), self._engine.connect() as connection:
            epoch = connection.execute(sa.select(_about.c.value).where(_IS_EPOCH)).scalar_one_or_none()
        if epoch != self._epoch:
            raise self._taken_over()

    def close(self) -> None:
        """Let go of the database."""
        self._engine.dispose()

    def _hold(self, connection: sa.Connection) -> None:
        """Make sure, until the transaction ends, that nobody has taken over or does so now."""
        if self._epoch is None:
            return
        mine = sa.update(_about).where(_IS_EPOCH, _about.c.value == self._epoch).values(value=self._epoch)
        if connection.execute(mine).rowcount != 1:
            raise self._taken_over()

    def _taken_over(self) -> StoreConflictError:
        return StoreConflictError(f"{self._shown}: another process has taken this store over; only one may act")

    def _open(self) -> None:
        """Create the tables in an empty database; refuse one that is not ours."""
        with self._engine.begin() as connection:
            if self._engine.dialect.name == "postgresql":
                # Replicas that start together make the tables one after the other.
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(OPEN_LOCK)))
            names = set(sa.inspect(connection).get_table_names())
            if _about.name not in names:
                foreign = sorted(names - set(_metadata.tables))
                if foreign and self._engine.dialect.name == "sqlite":
                    raise StoreError(
                        f"{self._shown} is another application's database (table {foreign[0]}); name another file"
                    )
                _metadata.create_all(connection)
                about = {"application": APPLICATION, "layout": LAYOUT}
                connection.execute(sa.insert(_about), [{"key": key, "value": about[key]} for key in about])
                return
            rows = connection.execute(sa.select(_about.c.key, _about.c.value)).all()
            found = {row.key: row.value for row in rows}
        if found.get("application") != APPLICATION or found.get("layout") != LAYOUT:
            raise StoreError(
                f"{self._shown} holds {found.get('application')!r} layout {found.get('layout')!r}, this build reads"
                f" {APPLICATION!r} layout {LAYOUT!r}; use the build that wrote it, or name another database"
            )

    @contextmanager
    def _errors(self, verb: str) -> Iterator[None]:
        """Turn the database's errors into ours."""
        try:
            yield
        except sa.exc.IntegrityError as error:
            raise StoreConflictError(
                f"{self._shown}: another process writes to this store; only one actuator may act ({error.orig})"
            ) from error
        except sa.exc.DatabaseError as error:
            raise StoreError(
                f"cannot {verb} {self._shown}: {error.orig}; if the file is damaged restore it from a copy, or move it"
                " away and look at every tainted node by hand"
            ) from error
        except sa.exc.SQLAlchemyError as error:
            raise StoreError(f"cannot {verb} {self._shown}: {error}") from error


def pack(snapshot: bytes) -> str:
    """A snapshot as text, at about a tenth of its size: it may have tens of megabytes."""
    return PACKED + base64.b64encode(zstandard.compress(snapshot)).decode()


def unpack(text: str) -> bytes:
    """What was packed; text that was not is taken as it is. Raises `StoreError`."""
    if not text.startswith(PACKED):
        return text.encode()
    try:
        return zstandard.decompress(base64.b64decode(text.removeprefix(PACKED), validate=True))
    except (ValueError, zstandard.ZstdError) as error:
        raise StoreError(f"the snapshot in the store is damaged: {error}; restore the database from a copy") from error


def _with_driver(url: str) -> str:
    """PostgreSQL URLs as people write them, with the driver that the extra installs."""
    for prefix in ("postgresql://", "postgres://"):
        if url.startswith(prefix):
            return "postgresql+psycopg://" + url.removeprefix(prefix)
    return url


def sqlite_url(path: Path) -> str:
    """URL of a SQLite file."""
    return sa.URL.create("sqlite", database=str(path)).render_as_string(hide_password=False)


def _make_sqlite_durable(connection: Any, _record: Any) -> None:
    """Per connection: write-ahead log, and every commit on the disk before it returns."""
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "busy_timeout=5000"):
        connection.execute(f"PRAGMA {pragma}")


def _make_postgresql_patient(connection: Any, _record: Any) -> None:
    """Per connection: a process that was stopped within a transaction must not lock out who takes over."""
    with connection.cursor() as cursor:
        cursor.execute("SET idle_in_transaction_session_timeout = '5s'")
        cursor.execute("SET lock_timeout = '15s'")
        cursor.execute("SET statement_timeout = '30s'")
    connection.commit()
