"""Which Kafka APIs this codec speaks: key, name, versions, and from which version on they are *flexible*.

The table repeats what the declarations in `messages/` say, so that nobody has to import seventy modules to look at a
request's header; a test holds the two together. Which of these versions a broker offers is the broker's business.

Flexible versions have compact lengths and tagged fields, and a header with tagged fields to match. The answer to
ApiVersions is the exception: it keeps the plain header, because a client reads it before it knows anything.
"""

from dataclasses import dataclass
from importlib import import_module

from runnel.codec.declare import Message
from runnel.codec.primitives import BadMessage

NEVER = 1 << 15
API_VERSIONS = 18

_TABLE: tuple[tuple[int, str, int, int, int | None], ...] = (
    # key, name, first version, last version, flexible from
    (0, "Produce", 0, 13, 9),
    (1, "Fetch", 4, 18, 12),
    (2, "ListOffsets", 1, 11, 6),
    (3, "Metadata", 0, 13, 9),
    (8, "OffsetCommit", 2, 10, 8),
    (9, "OffsetFetch", 1, 10, 6),
    (10, "FindCoordinator", 0, 6, 3),
    (11, "JoinGroup", 0, 9, 6),
    (12, "Heartbeat", 0, 4, 4),
    (13, "LeaveGroup", 0, 5, 4),
    (14, "SyncGroup", 0, 5, 4),
    (15, "DescribeGroups", 0, 6, 5),
    (16, "ListGroups", 0, 5, 3),
    (17, "SaslHandshake", 0, 1, None),
    (18, "ApiVersions", 0, 4, 3),
    (19, "CreateTopics", 2, 7, 5),
    (20, "DeleteTopics", 1, 6, 4),
    (21, "DeleteRecords", 0, 2, 2),
    (22, "InitProducerId", 0, 6, 2),
    (23, "OffsetForLeaderEpoch", 2, 4, 4),
    (24, "AddPartitionsToTxn", 0, 5, 3),
    (25, "AddOffsetsToTxn", 0, 4, 3),
    (26, "EndTxn", 0, 5, 3),
    (27, "WriteTxnMarkers", 1, 2, 1),
    (28, "TxnOffsetCommit", 0, 5, 3),
    (29, "DescribeAcls", 1, 3, 2),
    (30, "CreateAcls", 1, 3, 2),
    (31, "DeleteAcls", 1, 3, 2),
    (32, "DescribeConfigs", 1, 4, 4),
    (33, "AlterConfigs", 0, 2, 2),
    (34, "AlterReplicaLogDirs", 1, 2, 2),
    (35, "DescribeLogDirs", 1, 5, 2),
    (36, "SaslAuthenticate", 0, 2, 2),
    (37, "CreatePartitions", 0, 3, 2),
    (38, "CreateDelegationToken", 1, 3, 2),
    (39, "RenewDelegationToken", 1, 2, 2),
    (40, "ExpireDelegationToken", 1, 2, 2),
    (41, "DescribeDelegationToken", 1, 3, 2),
    (42, "DeleteGroups", 0, 2, 2),
    (43, "ElectLeaders", 0, 2, 2),
    (44, "IncrementalAlterConfigs", 0, 1, 1),
    (45, "AlterPartitionReassignments", 0, 1, 0),
    (46, "ListPartitionReassignments", 0, 0, 0),
    (47, "OffsetDelete", 0, 0, None),
    (48, "DescribeClientQuotas", 0, 1, 1),
    (49, "AlterClientQuotas", 0, 1, 1),
    (50, "DescribeUserScramCredentials", 0, 0, 0),
    (51, "AlterUserScramCredentials", 0, 0, 0),
    (55, "DescribeQuorum", 0, 2, 0),
    (57, "UpdateFeatures", 0, 2, 0),
    (60, "DescribeCluster", 0, 2, 0),
    (61, "DescribeProducers", 0, 0, 0),
    (64, "UnregisterBroker", 0, 0, 0),
    (65, "DescribeTransactions", 0, 0, 0),
    (66, "ListTransactions", 0, 2, 0),
    (68, "ConsumerGroupHeartbeat", 0, 1, 0),
    (69, "ConsumerGroupDescribe", 0, 1, 0),
    (71, "GetTelemetrySubscriptions", 0, 0, 0),
    (72, "PushTelemetry", 0, 0, 0),
    (74, "ListConfigResources", 0, 1, 0),
    (75, "DescribeTopicPartitions", 0, 0, 0),
    (76, "ShareGroupHeartbeat", 1, 1, 1),
    (77, "ShareGroupDescribe", 1, 1, 1),
    (78, "ShareFetch", 1, 2, 1),
    (79, "ShareAcknowledge", 1, 2, 1),
    (88, "StreamsGroupHeartbeat", 0, 0, 0),
    (89, "StreamsGroupDescribe", 0, 0, 0),
    (90, "DescribeShareGroupOffsets", 0, 1, 0),
    (91, "AlterShareGroupOffsets", 0, 0, 0),
    (92, "DeleteShareGroupOffsets", 0, 0, 0),
)


class UnknownApi(BadMessage):
    """A request names an API, or a version of one, that this codec does not speak."""


@dataclass(frozen=True, slots=True)
class Api:
    """One API: its requests and responses in all versions."""

    key: int
    name: str
    first: int
    last: int
    flexible: int

    def request_header(self, version: int) -> int:
        return 2 if version >= self.flexible else 1

    def response_header(self, version: int) -> int:
        return 1 if version >= self.flexible and self.key != API_VERSIONS else 0

    @property
    def module(self) -> str:
        return "".join("_" + letter.lower() if letter.isupper() else letter for letter in self.name).lstrip("_")

    def request(self) -> type[Message]:
        return self._message("Request")

    def response(self) -> type[Message]:
        return self._message("Response")

    def _message(self, kind: str) -> type[Message]:
        found: object = getattr(import_module(f"runnel.codec.messages.{self.module}"), self.name + kind)
        assert isinstance(found, type)
        assert issubclass(found, Message), f"{found} is declared as a part, not as a message"
        return found


APIS: dict[int, Api] = {
    key: Api(key, name, first, last, NEVER if flexible is None else flexible)
    for key, name, first, last, flexible in _TABLE
}


def api_of(key: int, version: int) -> Api:
    """The API of a request, if this codec speaks that version of it."""
    api = APIS.get(key)
    if api is None:
        raise UnknownApi(f"no Kafka API has key {key} here")
    if not api.first <= version <= api.last:
        raise UnknownApi(f"{api.name} is spoken in versions {api.first} to {api.last}, not {version}")
    return api
