"""The bounds of the Kafka door. Every one has a number, and passing it has one named consequence.

connections_max        the next one is closed at once, as Kafka does
request_bytes_max      a frame that claims more closes its connection (socket.request.max.bytes)
receive_bytes_max      beyond it, connections in the middle of a request are not read from until others are done
pipeline_max           no more is read from a connection with so many unanswered requests
write_buffer_bytes_max no more requests of a connection begin while so many bytes of answers are unsent
idle_seconds           a connection without requests for so long is closed (connections.max.idle.ms)
frame_seconds, frame_bytes_per_second_min
                       a request may take so long to arrive, plus its size over that speed; then it is cut
write_stall_seconds    a client that takes nothing of its answers for so long loses its connection
fetch_bytes_max        bytes of one Fetch answer, whatever the client allows (fetch.max.bytes)
fetch_wait_seconds_max how long a Fetch waits at most
unsent_bytes_max       beyond it, Fetches wait their time and get nothing until slow readers have taken their answers
sessions_max           Fetch sessions (max.incremental.fetch.session.cache.slots)
session_partitions_max partitions of all Fetch sessions together; beyond either, one that was not used for two minutes
                       makes room, or a client is served without a session
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    connections_max: int = 20_000
    request_bytes_max: int = 100 << 20
    receive_bytes_max: int = 256 << 20
    pipeline_max: int = 64
    write_buffer_bytes_max: int = 1 << 20
    idle_seconds: float = 600.0
    frame_seconds: float = 30.0
    frame_bytes_per_second_min: int = 16_384
    write_stall_seconds: float = 60.0
    sweep_seconds: float = 1.0
    backlog: int = 1_024
    free_blocks_bytes_max: int = 32 << 20
    fetch_bytes_max: int = 16 << 20
    fetch_wait_seconds_max: float = 300.0
    unsent_bytes_max: int = 128 << 20
    sessions_max: int = 1_000
    session_partitions_max: int = 200_000
