"""Where the in-memory cluster survives its process.

Decides only the form: one SQLite file, a row for each thing under its key, and a journal of what happened. A
transaction of the cluster is one of the database. `synchronous=OFF`: the file outlives a killed process, not a power
cut; it stands for the outside world, not for our own memory.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec


class JournalEntry(NamedTuple):
    """Something that happened: Unix milliseconds, what, to whom."""

    time_ms: int
    what: str
    subject: str


class Database:
    """Keys to JSON values, and the journal. Not thread-safe: the cluster's lock guards it."""

    def __init__(self, path: Path | None) -> None:
        """Open or create; None = in memory, gone with the process."""
        self._connection = sqlite3.connect(path or ":memory:", check_same_thread=False, isolation_level=None)
        for pragma in ("journal_mode=WAL", "synchronous=OFF"):
            self._connection.execute(f"PRAGMA {pragma}")
        self._connection.execute("CREATE TABLE IF NOT EXISTS thing (key TEXT PRIMARY KEY, value TEXT NOT NULL)")
        self._connection.execute(
            "CREATE TABLE IF NOT EXISTS journal (seq INTEGER PRIMARY KEY, time_ms INTEGER, what TEXT, subject TEXT)"
        )

    def load(self) -> Iterator[tuple[str, Any]]:
        """All things, sorted by key."""
        for key, value in self._connection.execute("SELECT key, value FROM thing ORDER BY key"):
            yield key, msgspec.json.decode(value)

    def save(self, things: Mapping[str, Any], entries: list[JournalEntry]) -> None:
        """Write changed things (None = deleted) and journal entries, all or nothing."""
        gone = [(key,) for key, value in things.items() if value is None]
        changed = [(key, msgspec.json.encode(value).decode()) for key, value in things.items() if value is not None]
        self._connection.execute("BEGIN")
        self._connection.executemany("DELETE FROM thing WHERE key = ?", gone)
        self._connection.executemany("INSERT OR REPLACE INTO thing VALUES (?, ?)", changed)
        self._connection.executemany("INSERT INTO journal (time_ms, what, subject) VALUES (?, ?, ?)", entries)
        self._connection.execute("COMMIT")

    def journal(self) -> list[JournalEntry]:
        """All that happened, in order."""
        rows = self._connection.execute("SELECT time_ms, what, subject FROM journal ORDER BY seq")
        return [JournalEntry(*row) for row in rows]

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()
