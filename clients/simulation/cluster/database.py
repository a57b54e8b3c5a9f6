"""The database of the simulated cluster, which outlives its process.

Decides only the form: one SQLite file with a row for each object under its key, and a journal of events. A transaction
of the cluster is a transaction of the database. `synchronous=OFF`: the file survives a killed process, but not a power
failure; it is a simulation, not the actuator's own store.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from trimtab.actuator.kube.cluster import ClusterError
from trimtab.common.documents.private_files import create_private, keep_others_out


class JournalEntry(NamedTuple):
    """An event: Unix milliseconds, kind, subject. `time_ms` : the time; `what` : the kind."""

    time_ms: int
    what: str
    subject: str


class DatabaseError(ClusterError):
    """The file of the simulated cluster cannot be used; the text names it and the reason."""


class ObjectStore(Protocol):
    """Where the cluster writes each transaction. Not thread-safe: the cluster's lock guards it."""

    def load(self) -> list[tuple[str, Any]]:
        """Return all values, sorted by key. Raises `DatabaseError`."""

    def save(self, things: Mapping[str, Any], entries: list[JournalEntry]) -> None:
        """Write changed things (None = deleted) and journal entries, all or nothing. Raises `DatabaseError`.

        The values are the cluster's own objects and change with it: copy them, do not keep them.
        """

    def journal(self) -> list[JournalEntry]:
        """Return the whole journal, in order."""

    def close(self) -> None:
        """End all access."""


class Database:
    """An `ObjectStore` in a file: keys to JSON values, and the journal."""

    def __init__(self, path: Path | None) -> None:
        """Open or create; None = in memory, lost with the process. Raises `DatabaseError`."""
        self._path = path
        with self._errors():
            if path is not None:
                create_private(path)
                keep_others_out(path)
            self._connection = sqlite3.connect(path or ":memory:", check_same_thread=False, isolation_level=None)
            for pragma in ("journal_mode=WAL", "synchronous=OFF"):
                self._connection.execute(f"PRAGMA {pragma}")
            self._connection.execute("CREATE TABLE IF NOT EXISTS thing (key TEXT PRIMARY KEY, value TEXT NOT NULL)")
            self._connection.execute(
                "CREATE TABLE IF NOT EXISTS journal (seq INTEGER PRIMARY KEY, time_ms INTEGER, what TEXT, subject TEXT)"
            )

    def load(self) -> list[tuple[str, Any]]:
        """Return all values, sorted by key. Raises `DatabaseError`."""
        with self._errors():
            rows = self._connection.execute("SELECT key, value FROM thing ORDER BY key").fetchall()
            return [(key, msgspec.json.decode(value)) for key, value in rows]

    def save(self, things: Mapping[str, Any], entries: list[JournalEntry]) -> None:
        """Write changed things (None = deleted) and journal entries, all or nothing."""
        gone = [(key,) for key, value in things.items() if value is None]
        changed = [(key, msgspec.json.encode(value).decode()) for key, value in things.items() if value is not None]
        with self._errors():
            self._connection.execute("BEGIN")
            self._connection.executemany("DELETE FROM thing WHERE key = ?", gone)
            self._connection.executemany("INSERT OR REPLACE INTO thing VALUES (?, ?)", changed)
            self._connection.executemany("INSERT INTO journal (time_ms, what, subject) VALUES (?, ?, ?)", entries)
            self._connection.execute("COMMIT")

    def journal(self) -> list[JournalEntry]:
        """Return the whole journal, in order."""
        rows = self._connection.execute("SELECT time_ms, what, subject FROM journal ORDER BY seq")
        return [JournalEntry(*row) for row in rows]

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Convert errors of SQLite into `DatabaseError`."""
        try:
            yield
        except (sqlite3.Error, msgspec.DecodeError, OSError) as error:
            raise DatabaseError(
                f"{self._path or 'the in-memory database'}: the cluster in it cannot be read or written: {error}; if it"
                " is damaged, delete it to start again from --cluster"
            ) from error
