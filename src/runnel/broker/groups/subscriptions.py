"""What consumers say of themselves inside the classic protocol: bytes that the broker carries and seldom reads."""

from runnel.codec.messages.consumer_protocol import ConsumerProtocolSubscription
from runnel.codec.primitives import BadMessage
from runnel.codec.wire import decode_bare


def subscription_in(metadata: bytes) -> frozenset[str] | None:
    """The topics that a member's metadata names; None if it is no consumer's."""
    if len(metadata) < 2:
        return None
    version = min(int.from_bytes(metadata[:2], signed=True), ConsumerProtocolSubscription.version_last)
    if version < 0:
        return None
    try:
        # Later versions have more fields behind those that we know.
        return frozenset(decode_bare(ConsumerProtocolSubscription, version, metadata[2:]).topics)
    except BadMessage:
        return None
