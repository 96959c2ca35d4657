"""A way to PostgreSQL that can be cut at any message."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

PASS, LOSE_REQUEST, LOSE_ANSWER = "pass", "lose the request", "lose the answer"


class Proxy:
    """Listens on a port of its own and passes on what a client and the server say, request by request.

    A request is a query, or what belongs to one up to its Sync; its answer ends with ReadyForQuery. Before each, `plan`
    is asked with its number (of all connections together) and its bytes. A cut is a reset of both connections.
    """

    def __init__(self, server_port: int) -> None:
        self.plan: Callable[[int, bytes], str] = lambda _number, _request: PASS
        self.requests = 0
        self.cuts = 0
        self._server_port = server_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def reset(self, plan: Callable[[int, bytes], str]) -> None:
        self.plan, self.requests, self.cuts = plan, 0, 0

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError, EOFError), client:
            server = socket.create_connection(("127.0.0.1", self._server_port))
            with server:
                server.sendall(_startup(client))
                client.sendall(_answer(server))
                while request := _request(client):
                    self.requests += 1
                    what = self.plan(self.requests, request)
                    if what != LOSE_REQUEST:
                        server.sendall(request)
                        answer = _answer(server)
                    if what != PASS:
                        self.cuts += 1
                        return
                    client.sendall(answer)


def _startup(client: socket.socket) -> bytes:
    length = _exactly(client, 4)
    return length + _exactly(client, int.from_bytes(length, "big") - 4)


def _request(client: socket.socket) -> bytes:
    request = b""
    while True:
        kind, message = _message(client)
        request += message
        if kind == b"X":
            return b""
        if kind in b"QS":
            return request


def _answer(server: socket.socket) -> bytes:
    answer = b""
    while True:
        kind, message = _message(server)
        answer += message
        if kind == b"Z":
            return answer


def _message(peer: socket.socket) -> tuple[bytes, bytes]:
    head = _exactly(peer, 5)
    return head[:1], head + _exactly(peer, int.from_bytes(head[1:], "big") - 4)


def _exactly(peer: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        piece = peer.recv(count - len(found))
        if not piece:
            raise EOFError
        found += piece
    return found
