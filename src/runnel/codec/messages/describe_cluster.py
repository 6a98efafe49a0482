"""DescribeCluster: the brokers and the cluster's id (API key 60)."""

from collections.abc import Sequence

from runnel.codec.declare import Bool, Int8, Int16, Int32, Message, String, Struct, field


class DescribeClusterRequest(Message, key=60, first=0, last=2, flexible=0):
    include_cluster_authorized_operations: Bool = False
    endpoint_type: Int8 = field(default=1, since=1)
    include_fenced_brokers: Bool = field(default=False, since=2)


class DescribeClusterBroker(Struct):
    broker_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None
    is_fenced: Bool = field(default=False, since=2)


class DescribeClusterResponse(Message, key=60, first=0, last=2, flexible=0):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    endpoint_type: Int8 = field(default=1, since=1)
    cluster_id: String = ""
    controller_id: Int32 = -1
    brokers: Sequence[DescribeClusterBroker] = ()
    cluster_authorized_operations: Int32 = -2_147_483_648
