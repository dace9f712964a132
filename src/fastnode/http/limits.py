"""Every limit of the RPC server, in one place.

Each limit is named in the error that enforces it, so that a client (or the operator reading the
client's log) knows what to change.  Times are in seconds, sizes in bytes.
"""

from __future__ import annotations

from typing import Final

from fastnode.records import dataclass

__all__ = ["Limits"]

KIB: Final = 1024
MIB: Final = 1024 * KIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    # ---- JSON-RPC
    #: Request body after inflation.
    body_bytes_max: int = MIB
    #: Calls in one batch.
    batch_calls_max: int = 100
    #: Arrays and objects inside each other, in a request.
    json_depth_max: int = 64
    #: Arrays and objects in a request.
    json_containers_max: int = 20_000
    #: Values of all kinds in a request, counted by their commas.
    json_values_max: int = 50_000
    #: Results of one HTTP request together; a batch shares it.
    response_bytes_max: int = 64 * MIB

    # ---- HTTP
    #: Request line and headers together.
    head_bytes_max: int = 16 * KIB
    headers_max: int = 100
    #: Chunks of one body, with the empty one at its end; each takes as long to read as a kilobyte of a plain body.
    body_chunks_max: int = 16_384
    #: From the first byte of a request to the end of its headers.
    head_time_s: float = 10.0
    #: From the end of the headers to the end of the body.
    body_time_s: float = 30.0
    #: Longest rest of a kept-alive connection between requests; announced to clients.
    idle_time_s: float = 65.0
    #: A client that takes nothing off the socket for this long is cut off.
    write_time_s: float = 60.0

    # ---- connections
    connections_max: int = 16_384
    #: Connections of one address, or of one IPv6 /64; 0: no limit.  A browser opens 6 and a client library some tens:
    #: enough for an office behind one address, and few enough that no address shuts out the others.  A proxy that
    #: brings everybody needs more.
    connections_per_address_max: int = 256
    #: Calls of one connection that may be running in threads at the same time.
    pipelined_calls_max: int = 16
    #: Unsent bytes of one connection above which nothing more is read or answered.  So a client that does not
    #: read holds at most this and one answer.
    write_buffer_bytes_max: int = 256 * KIB
    #: Bytes that all clients together leave unread.  Above it those that have been behind longest are cut off.
    unsent_bytes_max: int = 512 * MIB
