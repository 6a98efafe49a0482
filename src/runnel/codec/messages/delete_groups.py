"""DeleteGroups: groups to forget (API key 42)."""

from collections.abc import Sequence

from runnel.codec.declare import Int16, Int32, Message, String, Struct


class DeleteGroupsRequest(Message, key=42, first=0, last=2, flexible=2):
    groups_names: Sequence[String] = ()


class DeletableGroupResult(Struct):
    group_id: String = ""
    error_code: Int16 = 0


class DeleteGroupsResponse(Message, key=42, first=0, last=2, flexible=2):
    throttle_time_ms: Int32 = 0
    results: Sequence[DeletableGroupResult] = ()
