"""Harmless answers for what means nothing without leaders and replicas:

ElectLeaders (43), AlterPartitionReassignments (45), ListPartitionReassignments (46), AlterReplicaLogDirs (34).

Any broker serves any partition, so an election is never needed; records are in the object store, so a reassignment has
already happened when it is asked for and none is ever under way. What names topics that do not exist is told so.
"""

from collections.abc import Mapping

from runnel.broker.broker import Broker
from runnel.broker.call import Call, Handler
from runnel.codec.errors import ErrorCode
from runnel.codec.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from runnel.codec.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from runnel.codec.messages.elect_leaders import ElectLeadersResponse, PartitionResult, ReplicaElectionResult
from runnel.codec.messages.list_partition_reassignments import ListPartitionReassignmentsResponse

PREFERRED, UNCLEAN = 0, 1


def handlers(broker: Broker) -> Mapping[int, Handler]:
    def is_there(topic: str, partition: int) -> bool:
        known = broker.catalog.topic(topic)
        return known is not None and broker.catalog.stream(known, partition) is not None

    def elect_leaders(call: Call) -> ElectLeadersResponse:
        request = call.request
        if request.election_type not in (PREFERRED, UNCLEAN):
            return ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST)

        def one(topic: str, partition: int) -> PartitionResult:
            if not is_there(topic, partition):
                code, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic}-{partition}"
            else:
                code, message = ErrorCode.ELECTION_NOT_NEEDED, "any broker serves any partition: no election is needed"
            return PartitionResult(partition_id=partition, error_code=code, error_message=message)

        # As in Kafka: asked for all partitions, those that need no election are left out, which here is every one.
        return ElectLeadersResponse(
            replica_election_results=[
                ReplicaElectionResult(
                    topic=asked.topic, partition_result=[one(asked.topic, partition) for partition in asked.partitions]
                )
                for asked in request.topic_partitions or ()
            ]
        )

    def alter_partition_reassignments(call: Call) -> AlterPartitionReassignmentsResponse:
        def one(topic: str, asked: ReassignablePartition) -> ReassignablePartitionResponse:
            code, message = ErrorCode.NONE, None
            if not is_there(topic, asked.partition_index):
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                message = f"there is no partition {topic}-{asked.partition_index}"
            elif asked.replicas is None:
                code, message = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "no reassignment is ever under way here"
            elif not asked.replicas or len(set(asked.replicas)) < len(asked.replicas) or min(asked.replicas) < 0:
                code, message = (
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"{list(asked.replicas)} are not different brokers",
                )
            return ReassignablePartitionResponse(
                partition_index=asked.partition_index, error_code=code, error_message=message
            )

        return AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=call.request.allow_replication_factor_change,
            error_message=None,
            responses=[
                ReassignableTopicResponse(
                    name=topic.name, partitions=[one(topic.name, partition) for partition in topic.partitions]
                )
                for topic in call.request.topics
            ],
        )

    def list_partition_reassignments(_: Call) -> ListPartitionReassignmentsResponse:
        return ListPartitionReassignmentsResponse(error_message=None)

    def alter_replica_log_dirs(call: Call) -> AlterReplicaLogDirsResponse:
        partitions: dict[str, list[int]] = {}
        for folder in call.request.dirs:
            for topic in folder.topics:
                partitions.setdefault(topic.name, []).extend(topic.partitions)
        return AlterReplicaLogDirsResponse(
            results=[
                AlterReplicaLogDirTopicResult(
                    topic_name=topic,
                    partitions=[
                        AlterReplicaLogDirPartitionResult(
                            partition_index=partition,
                            error_code=ErrorCode.LOG_DIR_NOT_FOUND
                            if is_there(topic, partition)
                            else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                        )
                        for partition in numbers
                    ],
                )
                for topic, numbers in partitions.items()
            ]
        )

    return {
        34: alter_replica_log_dirs,
        43: elect_leaders,
        45: alter_partition_reassignments,
        46: list_partition_reassignments,
    }
