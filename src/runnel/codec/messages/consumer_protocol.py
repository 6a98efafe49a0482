"""What members of classic consumer groups say to each other inside JoinGroup and SyncGroup: an Int16 version, then this."""

from collections.abc import Sequence

from runnel.codec.declare import Bytes, Int32, Message, String, Struct, field


class OwnedPartitions(Struct):
    topic: String = ""
    partitions: Sequence[Int32] = ()


class ConsumerProtocolSubscription(Message, key=-1, first=0, last=3):
    topics: Sequence[String] = ()
    user_data: Bytes | None = None
    owned_partitions: Sequence[OwnedPartitions] = field(default=(), since=1)
    generation_id: Int32 = field(default=-1, since=2)
    rack_id: String | None = field(default=None, since=3)


class AssignedPartitions(Struct):
    topic: String = ""
    partitions: Sequence[Int32] = ()


class ConsumerProtocolAssignment(Message, key=-1, first=0, last=3):
    assigned_partitions: Sequence[AssignedPartitions] = ()
    user_data: Bytes | None = None
