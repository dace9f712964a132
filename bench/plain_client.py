"""One keep-alive connection, with as little client as possible in what is measured."""

from __future__ import annotations

import socket

HEAD = b"POST / HTTP/1.1\r\nhost: node\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
PATIENCE_S = 60.0


class PlainClient:
    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._stream = self._socket.makefile("rb")

    def post(self, body: bytes) -> bytes:
        """The body of the answer."""
        self._socket.sendall(HEAD % len(body) + body)
        length = 0
        while (line := self._stream.readline()) != b"\r\n":
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        return self._stream.read(length)

    def close(self) -> None:
        self._stream.close()
        self._socket.close()
