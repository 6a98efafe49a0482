"""Names of the protocol's headers as we send them, and what browsers must be told.

Requests are looked up by lower-case names (`Request.headers`); answers use these spellings.
"""

NEXT_OFFSET = "stream-next-offset"
UP_TO_DATE = "stream-up-to-date"
CLOSED = "stream-closed"
CURSOR = "stream-cursor"
TTL = "stream-ttl"
EXPIRES_AT = "stream-expires-at"
SEQ = "stream-seq"
SSE_ENCODING = "stream-sse-data-encoding"
FORKED_FROM = "stream-forked-from"
FORK_OFFSET = "stream-fork-offset"
FORK_SUB_OFFSET = "stream-fork-sub-offset"
PRODUCER_ID = "producer-id"
PRODUCER_EPOCH = "producer-epoch"
PRODUCER_SEQ = "producer-seq"
PRODUCER_EXPECTED_SEQ = "producer-expected-seq"
PRODUCER_RECEIVED_SEQ = "producer-received-seq"
RECORD_MATCH = "stream-record-match"
RECORD_NEXT = "stream-record-next"
RECORD_FIRST = "stream-record-first"
RECORD_START = "stream-record-start"
EXTENSIONS = "stream-extensions"
DATA_TYPE = "stream-data-content-type"
ATTRIBUTES = "stream-attrs"
SNAPSHOT_OFFSET = "stream-snapshot-offset"
SNAPSHOT_DIGEST = "stream-snapshot-digest"
SNAPSHOT_MATCH = "stream-snapshot-match"

METHODS = "GET, POST, PUT, DELETE, HEAD, OPTIONS"

_SENT = (
    NEXT_OFFSET, UP_TO_DATE, CLOSED, CURSOR, TTL, EXPIRES_AT, SSE_ENCODING, PRODUCER_EPOCH, PRODUCER_SEQ,
    PRODUCER_EXPECTED_SEQ, PRODUCER_RECEIVED_SEQ, RECORD_FIRST, RECORD_START, RECORD_NEXT, EXTENSIONS,
    DATA_TYPE, SNAPSHOT_OFFSET, SNAPSHOT_DIGEST, "etag", "location", "retry-after",
)  # fmt: skip
_TAKEN = (
    "content-type", "authorization", "if-none-match", "last-event-id", SEQ, TTL, EXPIRES_AT, CLOSED, FORKED_FROM,
    FORK_OFFSET, FORK_SUB_OFFSET, PRODUCER_ID, PRODUCER_EPOCH, PRODUCER_SEQ, RECORD_MATCH, ATTRIBUTES, SNAPSHOT_MATCH,
    "prefer",
)  # fmt: skip

# On every answer of a stream's address, also its errors: a page of any origin may use streams and read these headers.
BROWSER = {"access-control-allow-origin": "*", "access-control-expose-headers": ", ".join(_SENT)}
PREFLIGHT = {
    "access-control-allow-origin": "*",
    "access-control-allow-methods": METHODS,
    "access-control-allow-headers": ", ".join(_TAKEN),
    "access-control-max-age": "86400",
}
