"""Connections to PostgreSQL that do not wait for ever.

Decides how long a connection may take, and how long a server may be silent while an answer is awaited: one that hangs,
or a network that loses everything, would otherwise hold the caller, all who wait for the event processor, and the
Lease. The server's own time-outs end what a suspended process has left. Durations in seconds.
"""

from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import event as sa_event

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
