"""The bounds of an HTTP server. Every one has a number, and passing it has one named consequence.

Nothing here is per request; a server costs one timer, whatever the number of its connections.

connections_max           the next one is told 503 and closed
head_bytes_max, headers_max, target_bytes_max      431, 431, 414, and the connection closes
body_bytes_max            413 and close; a route may have its own (`HttpServer(body_limit=...)`)
inflight_body_bytes_max   503 and Retry-After for the request that would pass it; the connection lives on
pipeline_max              no more is read from that connection until answers have left
idle_seconds, head_seconds                         the connection closes
body_seconds, body_bytes_per_second_min            408: a body may take so long plus its size over that speed
write_stall_seconds       a client that takes nothing for so long loses its connection
stream_buffer_bytes_max   a streaming answer that has so much unsent loses its connection
linger_seconds            how long a refused client may go on sending before its connection is cut
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    connections_max: int = 65_536
    target_bytes_max: int = 8_192
    head_bytes_max: int = 32_768
    headers_max: int = 100
    body_bytes_max: int = 32 << 20
    inflight_body_bytes_max: int = 256 << 20
    pipeline_max: int = 64
    idle_seconds: float = 75.0
    head_seconds: float = 15.0
    body_seconds: float = 30.0
    body_bytes_per_second_min: int = 16_384
    write_stall_seconds: float = 30.0
    write_buffer_bytes_max: int = 65_536
    stream_buffer_bytes_max: int = 4 << 20
    linger_seconds: float = 2.0
    sweep_seconds: float = 1.0
    backlog: int = 1_024
