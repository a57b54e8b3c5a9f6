"""A TCP proxy on loopback whose connections a test can hold, cut and heal: a network that fails.

with TcpProxy(port_of_the_server) as proxy:
    connect_to(proxy.port)
    proxy.hold()
    proxy.heal(deliver=False)
"""

import contextlib
import socket
import struct
import threading
from typing import Self

_CHUNK = 65_536


class TcpProxy:
    """The proxy; use as a context manager."""

    def __init__(self, target_port: int) -> None:
        self._target = ("127.0.0.1", target_port)
        self._open = threading.Event()
        self._open.set()
        self._refusing = False
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._refusing = True
        # Wakes the thread that accepts; closing alone does not.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._reset_all()
        self._open.set()

    def hold(self) -> None:
        """Silently stop all traffic in both directions: connections stay open, new ones hang."""
        self._open.clear()

    def cut(self) -> None:
        """Reset all connections, and new ones at once."""
        self._refusing = True
        self._reset_all()

    def heal(self, *, deliver: bool = False) -> None:
        """Resume traffic. Data in transit arrives late (`deliver`) or is lost with its connection."""
        if not deliver:
            self._reset_all()
        self._refusing = False
        self._open.set()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._refusing:
                _reset(client)
                continue
            threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(self._target)
        except OSError:
            _reset(client)
            return
        pair = (client, server)
        with self._lock:
            self._sockets.update(pair)
        for source, sink in (pair, pair[::-1]):
            source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(_CHUNK):
                self._open.wait()
                sink.sendall(data)
            self._open.wait()
            sink.shutdown(socket.SHUT_WR)
        except OSError:  # one of the two is gone
            self._forget(source, sink)

    def _forget(self, *pair: socket.socket) -> None:
        with self._lock:
            self._sockets.difference_update(pair)
        for one in pair:
            _reset(one)

    def _reset_all(self) -> None:
        with self._lock:
            sockets, self._sockets = self._sockets, set()
        for one in sockets:
            _reset(one)


def _reset(one: socket.socket) -> None:
    """Close a connection: the peer sees a reset, a local reader an end of file."""
    with contextlib.suppress(OSError):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        one.shutdown(socket.SHUT_RDWR)
    one.close()
