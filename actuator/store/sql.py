"""The store in a SQL database: SQLite by default, PostgreSQL by URL.

Decides the tables, and that each append is one transaction. SQLite runs in WAL mode with `synchronous=FULL`: a commit
is on the disk when it returns; its files are for the process's own account. Never parses records. A database of another
application or layout is refused, not changed.
"""

import base64
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
import zstandard
from sqlalchemy import event as sa_event

from trimtab.actuator.store.records import History, Record, StoreConflictError, StoreError
from trimtab.common.documents.private_files import create_private, keep_others_out
from trimtab.common.rpc.extras import MissingExtraError, require_extra

# A parameter of the URL overrides it.
CONNECT_S: Final = 5
# As long as a leader may fail to renew its Lease. More than the session's time-out for locks.
SILENCE_S: Final = 10.0
# A connection that a firewall or a server has dropped is noticed although it is not used, and so is a lost peer.
KEEP_ALIVE: Final = {"keepalives": 1, "keepalives_idle": 30, "keepalives_interval": 5, "keepalives_count": 3}
# A process suspended within a transaction must not block its successor, which waits for its locks.
SESSION: Final = (
    "SET idle_in_transaction_session_timeout = '5s'",
    "SET lock_timeout = '8s'",
    "SET statement_timeout = '30s'",
)

Wait = Generator[Any, Any, Any]

APPLICATION = "trimtab-actuator"
LAYOUT = "2"
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
# Prefix of packed text: base64 of zstandard.
PACKED = "zstd:"
HIDDEN = "***"
EPOCH = "epoch"
# A row that exists only while a store is being opened, and its size.
ROOM = "room"
ROOM_BYTES = 64 << 10
# The driver for PostgreSQL, which the extra installs.
DRIVER = "psycopg"
# An arbitrary number that never changes.
OPEN_LOCK = 7_487_645
# Codes of SQLite and PostgreSQL.
_DISK_FULL = ("SQLITE_FULL", "53100")
_IS_EPOCH = _about.c.key == EPOCH
# Built once: it is executed for every eviction.
_INSERT_EVENTS = sa.insert(_events)


def bound_waits(engine: sa.Engine, clock: Callable[[], float]) -> None:
    """Bound all waits of an engine's connections; `clock` is monotonic, in seconds."""

    def connect(dialect: Any, _record: Any, arguments: Any, parameters: dict[str, Any]) -> Any:
        connection = dialect.connect(*arguments, **{"connect_timeout": CONNECT_S, **KEEP_ALIVE, **parameters})
        error = dialect.loaded_dbapi.OperationalError
        # All of a connection's calls wait here, also those that check and reset it.
        connection.wait = partial(_wait, connection, connection.wait, error, clock)
        return connection

    sa_event.listen(engine, "do_connect", connect)
    sa_event.listen(engine, "connect", _set_session)


def _set_session(connection: Any, _record: Any) -> None:
    with connection.cursor() as cursor:
        for statement in SESSION:
            cursor.execute(statement)
    connection.commit()


def _wait(
    connection: Any,
    wait: Callable[..., Any],
    error: type[Exception],
    clock: Callable[[], float],
    work: Wait,
    *args: Any,
    **options: Any,
) -> Any:
    """Wait for the server as `wait` does, and close the connection if the server is silent for too long."""

    def bounded() -> Wait:
        since_s, ready = clock(), None
        while True:
            try:
                wanted = work.send(ready)
            except StopIteration as end:
                return end.value
            ready = yield wanted
            if ready:
                since_s = clock()
            elif clock() - since_s > SILENCE_S:
                # The answer may still come: nothing else may be read from this connection.
                connection.pgconn.finish()
                raise error(f"the server has not answered for {SILENCE_S:g} s")

    return wait(bounded(), *args, **options)


class SqlStore:
    """A `Store` in a SQL database."""

    def __init__(self, url: str, clock: Callable[[], float] = time.monotonic) -> None:
        """Open or create. `url` is SQLAlchemy's; `clock` is monotonic, in seconds. Raises `StoreError`."""
        parsed = parse_url(url)
        self._shown, self._secrets = shown_url(parsed), _secrets(parsed)
        self._file = store_file(url)
        # By path: the identities of a SQLite store's files when they were opened.
        self._identities: dict[Path, tuple[int, int]] = {}
        try:
            if parsed.drivername.startswith("postgres"):
                require_extra("postgresql", "a store in PostgreSQL")
            self._engine = sa.create_engine(_with_driver(url), pool_pre_ping=not url.startswith("sqlite"))
        except MissingExtraError as error:
            raise StoreError(str(error)) from error
        except (sa.exc.ArgumentError, ImportError) as error:
            raise StoreError(f"the store's URL {self._shown} cannot be used: {self._redact(error)}") from error
        # Epoch under which this process has taken over the store; None = a lock keeps others out.
        self._epoch: str | None = None
        if self._engine.dialect.name == "sqlite":
            sa_event.listen(self._engine, "connect", _make_sqlite_durable)
        if self._engine.dialect.name == "postgresql":
            if self._engine.dialect.driver != DRIVER:
                raise StoreError(
                    f"the store's URL {self._shown} cannot be used: write postgresql://…, without a driver"
                )
            bound_waits(self._engine, clock)
        try:
            with self._errors("open"):
                if self._file is not None:
                    create_private(self._file)
                self._open()
            self._identify()
        except BaseException:
            self._engine.dispose()
            raise

    def load(self) -> History:
        """Read everything."""
        with self._errors("read"), self._reading() as connection:
            snapshot = connection.execute(
                sa.select(_snapshots.c.seq, _snapshots.c.payload).order_by(_snapshots.c.seq.desc()).limit(1)
            ).first()
            seq = snapshot.seq if snapshot else 0
            rows = connection.execute(sa.select(_events).where(_events.c.seq > seq).order_by(_events.c.seq)).all()
        for position, row in enumerate(rows, start=seq + 1):
            if row.seq != position:
                raise StoreError(
                    f"{self._shown}: event {position} is missing; restore the database from a backup, or move it "
                    "away and check every tainted node by hand"
                )
        records = tuple(Record(row.time_ms, row.payload.encode()) for row in rows)
        return History(unpack(snapshot.payload) if snapshot else None, seq, records)

    def append(self, first_seq: int, records: Sequence[Record]) -> None:
        """Write records in one transaction."""
        rows = [
            {"seq": seq, "time_ms": record.time_ms, "payload": record.payload.decode()}
            for seq, record in enumerate(records, start=first_seq)
        ]
        self.check()
        with self._errors("write"), self._engine.begin() as connection:
            self._hold(connection)
            connection.execute(_INSERT_EVENTS, rows)
        # Events written to a file that was deleted in the meantime would be lost.
        self.check()

    def compact(self, seq: int, snapshot: bytes) -> None:
        """Replace all records up to `seq` by a snapshot."""
        with self._errors("compact"), self._engine.begin() as connection:
            self._hold(connection)
            connection.execute(sa.insert(_snapshots), [{"seq": seq, "payload": pack(snapshot)}])
            connection.execute(sa.delete(_snapshots).where(_snapshots.c.seq < seq))
            connection.execute(sa.delete(_events).where(_events.c.seq <= seq))

    def take_over(self) -> int:
        """Become the only writer: earlier writers are refused from now on. Returns the epoch.

        Call before `load`: no earlier writer can append after it.
        """
        with self._errors("take over"), self._engine.begin() as connection:
            # The update comes first: it takes the lock that the read needs.
            number = sa.cast(sa.cast(_about.c.value, sa.BigInteger) + 1, sa.Text)
            if connection.execute(sa.update(_about).where(_IS_EPOCH).values(value=number)).rowcount == 0:
                connection.execute(sa.insert(_about), [{"key": EPOCH, "value": "1"}])
            epoch = str(connection.execute(sa.select(_about.c.value).where(_IS_EPOCH)).scalar_one())
        self._epoch = epoch
        return int(epoch)

    def confirm(self) -> None:
        """Raise `StoreConflictError` after another process has taken over, `StoreError` if the store is missing."""
        if self._epoch is None:
            return
        with self._errors("read"), self._engine.connect() as connection:
            epoch = connection.execute(sa.select(_about.c.value).where(_IS_EPOCH)).scalar_one_or_none()
        if epoch != self._epoch:
            raise self._taken_over()

    def check(self) -> None:
        """Raise `StoreError` when the files of a SQLite store were deleted or replaced."""
        for path, identity in self._identities.items():
            if _identity(path) != identity:
                raise StoreError(
                    f"{path} was deleted or replaced while the actuator worked with it, and its records would be "
                    "lost; put the file back, or restart and check every tainted node by hand"
                )

    def close(self) -> None:
        """Close the database."""
        self._engine.dispose()

    @contextmanager
    def _reading(self) -> Iterator[sa.Connection]:
        """Return a transaction whose reads all see the same moment, also while another process compacts the log."""
        with self._engine.connect() as connection:
            if self._engine.dialect.name == "sqlite":
                # The driver begins a transaction only before it writes.
                connection.exec_driver_sql("BEGIN")
            else:
                connection.execution_options(isolation_level="REPEATABLE READ")
            yield connection

    def _identify(self) -> None:
        """Store the identities of database and write-ahead log, and keep others from reading the files."""
        if self._file is not None:
            for path in (self._file, self._file.with_name(self._file.name + "-wal")):
                identity = _identity(path)
                if identity is not None:
                    self._identities[path] = identity
            for suffix in ("", "-wal", "-shm"):
                keep_others_out(self._file.with_name(self._file.name + suffix))

    def _redact(self, error: object) -> str:
        """Return the text of an error without the secrets of the URL."""
        text = str(error)
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        return text

    def _hold(self, connection: sa.Connection) -> None:
        """Check that no other process has taken over, and prevent it until the transaction ends."""
        if self._epoch is None:
            return
        mine = sa.update(_about).where(_IS_EPOCH, _about.c.value == self._epoch).values(value=self._epoch)
        if connection.execute(mine).rowcount != 1:
            raise self._taken_over()

    def _remedy(self, error: object) -> str:
        code = getattr(error, "sqlite_errorname", "") or getattr(error, "sqlstate", "") or ""
        if code in _DISK_FULL or code.startswith("SQLITE_IOERR"):
            return "see that its disk works and has room, and restart: what was recorded is kept"
        if self._file is None:
            return "see that the database can be reached and answers"
        return "if the file is damaged, restore it from a backup, or move it away and check every tainted node by hand"

    def _taken_over(self) -> StoreConflictError:
        return StoreConflictError(f"{self._shown}: another process has taken over this store; only one may act")

    def _open(self) -> None:
        """Create the tables in an empty database; refuse one of another application."""
        with self._engine.begin() as connection:
            if self._engine.dialect.name == "postgresql":
                # Replicas that start together create the tables one after another.
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
            values = {row.key: row.value for row in rows}
        if values.get("application") != APPLICATION or values.get("layout") != LAYOUT:
            raise StoreError(
                f"{self._shown} holds {values.get('application')!r} layout {values.get('layout')!r}, this build reads"
                f" {APPLICATION!r} layout {LAYOUT!r}; use the build that wrote it, or name another database"
            )
        if self._file is not None:
            self._find_room()

    def _find_room(self) -> None:
        """Write and delete some bytes: with a full disk the process must end before it resumes its work, as it could
        record hardly any of it.
        """
        is_room = _about.c.key == ROOM
        with self._engine.begin() as connection:
            connection.execute(sa.delete(_about).where(is_room))
            connection.execute(sa.insert(_about), [{"key": ROOM, "value": "-" * ROOM_BYTES}])
        with self._engine.begin() as connection:
            connection.execute(sa.delete(_about).where(is_room))

    @contextmanager
    def _errors(self, verb: str) -> Iterator[None]:
        """Convert the database's errors into `StoreError`."""
        try:
            yield
        except OSError as error:
            raise StoreError(f"cannot {verb} {self._shown}: {error.strerror}; {self._remedy(error)}") from error
        except sa.exc.IntegrityError as error:
            raise StoreConflictError(
                f"{self._shown}: another process writes to this store; only one actuator may act"
                f" ({self._redact(error.orig)})"
            ) from error
        except sa.exc.DatabaseError as error:
            remedy = self._remedy(error.orig)
            raise StoreError(f"cannot {verb} {self._shown}: {self._redact(error.orig)}; {remedy}") from error
        except sa.exc.SQLAlchemyError as error:
            raise StoreError(f"cannot {verb} {self._shown}: {self._redact(error)}") from error


def pack(snapshot: bytes) -> str:
    """Return a snapshot as text, compressed to about a tenth: it may be tens of megabytes long."""
    return PACKED + base64.b64encode(zstandard.compress(snapshot)).decode()


def unpack(text: str) -> bytes:
    """Undo `pack`; text that was not packed is returned as it is. Raises `StoreError`."""
    if not text.startswith(PACKED):
        return text.encode()
    try:
        return zstandard.decompress(base64.b64decode(text.removeprefix(PACKED), validate=True))
    except (ValueError, zstandard.ZstdError) as error:
        raise StoreError(
            f"the snapshot in the store is damaged: {error}; restore the database from a backup"
        ) from error


def parse_url(url: str) -> sa.URL:
    """Parse the URL of a store. Raises `StoreError`, whose text leaves out possible passwords."""
    try:
        return sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError) as error:
        raise StoreError(
            "the store's URL is invalid; write sqlite:////directory/file or postgresql://user:password@host/database"
        ) from error


def shown_url(url: sa.URL) -> str:
    """Return a URL for messages: passwords are hidden, in its parameters too."""
    query = {key: HIDDEN if _is_secret(key) else value for key, value in url.query.items()}
    return url.set(query=query).render_as_string(hide_password=True)


def store_file(url: str) -> Path | None:
    """Return the file of a SQLite store, links resolved; None = another database. Raises `StoreError`."""
    parsed = parse_url(url)
    if parsed.get_backend_name() != "sqlite":
        return None
    name = (parsed.database or "").removeprefix("file:").partition("?")[0]
    if name in ("", ":memory:"):
        raise StoreError(
            "a store in memory loses everything at exit; name a file, such as sqlite:////directory/store.sqlite"
        )
    return Path(name).resolve()


def _is_secret(parameter: str) -> bool:
    return any(word in parameter.lower() for word in ("pass", "secret", "token"))


def _secrets(url: sa.URL) -> list[str]:
    """Return the secrets of a URL, longest first."""
    values = [str(url.password or "")]
    for key, value in url.query.items():
        if _is_secret(key):
            values += [value] if isinstance(value, str) else list(value)
    return sorted({value for value in values if value}, key=len, reverse=True)


def _identity(path: Path) -> tuple[int, int] | None:
    """Return the identity of a file, which a later file of the same name does not share; None = no such file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _with_driver(url: str) -> str:
    """Return the URL; in PostgreSQL URLs, with the driver that the extra installs."""
    for prefix in ("postgresql://", "postgres://"):
        if url.startswith(prefix):
            return f"postgresql+{DRIVER}://" + url.removeprefix(prefix)
    return url


def sqlite_url(path: Path) -> str:
    """Return the URL of a SQLite file."""
    return sa.URL.create("sqlite", database=str(path)).render_as_string(hide_password=False)


def _make_sqlite_durable(connection: Any, _record: Any) -> None:
    """Set up a connection: write-ahead log, and every commit is on the disk before it returns."""
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "busy_timeout=5000"):
        connection.execute(f"PRAGMA {pragma}")
