"""The bounds of groups. Each is a setting."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupBounds:
    groups_max: int = 100_000
    """Groups with members, or on their way, in the hands of one broker."""
    members_max: int = 5_000
    """Of one group (group.max.size)."""
    metadata_bytes_max: int = 1 << 20
    """What the members of one group may bring along together: protocols, subscriptions."""
    assignment_bytes_max: int = 2 << 20
    """What a leader may hand out."""
    session_ms_min: int = 6_000
    session_ms_max: int = 1_800_000
    initial_delay_ms: int = 3_000
    """How long the first generation of a group waits for more members (group.initial.rebalance.delay.ms)."""
    new_member_seconds: float = 300.0
    """A new member whose join is not answered for so long is taken to be gone."""
    consumer_session_ms: int = 45_000
    """How long a member of a group of the new protocol may be silent (group.consumer.session.timeout.ms)."""
    consumer_heartbeat_ms: int = 5_000
    """How often it is told to send heartbeats (group.consumer.heartbeat.interval.ms)."""
    note_bytes_max: int = 4_096
    """What may be said along with a committed offset (offset.metadata.max.bytes)."""
