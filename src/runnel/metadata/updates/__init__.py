"""The ways the truth can change: one file per family, one struct per change.

commit     what a WAL object brings to its streams: offsets, duplicates, fences are decided here
streams    streams come, go, close and are truncated
topics     topics and their settings (root)
nodes      nodes, their leases, numbers drawn by them (root)
extents    other objects hold the same offsets: Parquet in place of write-ahead objects
lives      streams with names are used, expire, are removed, and are held by their forks
buckets    namespaces of streams come and go, and what they may hold
snapshots  what an application publishes beside a stream, and lets go in its favour
groups     generations and committed offsets
subscriptions  they come, wake, are claimed and acknowledged
tables     who plans, what commits have moved, what is in the way (root)
schemas    schemas, their versions and what holds for them (root)
upkeep     the sweep's horizon, producers that fell silent

Each is deterministic and frozen; its encoding is its tag and its fields in order. Fields are only ever appended.
"""

from runnel.metadata.updates.buckets import (
    ForgetBucket,
    LeaveBucket,
    LimitBucket,
    MakeBucket,
    SealBucket,
    UnsealBucket,
)
from runnel.metadata.updates.commit import CommitObject
from runnel.metadata.updates.extents import ReplaceExtents
from runnel.metadata.updates.groups import (
    CommitOffsets,
    CommitOfMember,
    DeleteGroups,
    DeleteOffsets,
    EnterGeneration,
    ExpireOffsets,
    TakeGroup,
)
from runnel.metadata.updates.lives import HoldSource, ReleaseSource, RemoveStream, TouchStream
from runnel.metadata.updates.nodes import DrawNumbers, Found, RegisterNode, RemoveNode, RenewLease, SetSettings
from runnel.metadata.updates.schemas import DeleteSchemas, RegisterSchema, SetSchemaRules
from runnel.metadata.updates.snapshots import PublishSnapshot, RetainStream, SetAttributes
from runnel.metadata.updates.streams import CreateStreams, DeleteStreams, OpenStream, TruncateStreams
from runnel.metadata.updates.subscriptions import (
    AckSubscription,
    ClaimSubscription,
    DropSubscription,
    LapseSubscription,
    LinkStreams,
    PutSubscription,
    WakeSubscription,
)
from runnel.metadata.updates.tables import (
    BeginCommit,
    ForgetTable,
    MarkCommit,
    NoteTable,
    OpenTable,
    RenewPlanning,
    TakePlanning,
)
from runnel.metadata.updates.topics import AddPartitions, AlterTopic, CreateTopic, DeleteTopic, ForgetTopic
from runnel.metadata.updates.upkeep import EnterHorizon, ExpireProducers

AnyUpdate = (
    AckSubscription
    | AddPartitions
    | AlterTopic
    | BeginCommit
    | ClaimSubscription
    | CommitObject
    | CommitOfMember
    | CommitOffsets
    | CreateStreams
    | CreateTopic
    | DeleteGroups
    | DeleteOffsets
    | DeleteSchemas
    | DeleteStreams
    | DeleteTopic
    | DrawNumbers
    | DropSubscription
    | EnterGeneration
    | EnterHorizon
    | ExpireOffsets
    | ExpireProducers
    | ForgetBucket
    | ForgetTable
    | ForgetTopic
    | Found
    | HoldSource
    | LapseSubscription
    | LeaveBucket
    | LimitBucket
    | LinkStreams
    | MakeBucket
    | MarkCommit
    | NoteTable
    | OpenStream
    | OpenTable
    | PublishSnapshot
    | PutSubscription
    | RegisterNode
    | RegisterSchema
    | ReleaseSource
    | RemoveNode
    | RemoveStream
    | RenewLease
    | RenewPlanning
    | ReplaceExtents
    | RetainStream
    | SealBucket
    | SetAttributes
    | SetSchemaRules
    | SetSettings
    | TakeGroup
    | TakePlanning
    | TouchStream
    | TruncateStreams
    | UnsealBucket
    | WakeSubscription
)

__all__ = [
    "AckSubscription",
    "AddPartitions",
    "AlterTopic",
    "AnyUpdate",
    "BeginCommit",
    "ClaimSubscription",
    "CommitObject",
    "CommitOfMember",
    "CommitOffsets",
    "CreateStreams",
    "CreateTopic",
    "DeleteGroups",
    "DeleteOffsets",
    "DeleteSchemas",
    "DeleteStreams",
    "DeleteTopic",
    "DrawNumbers",
    "DropSubscription",
    "EnterGeneration",
    "EnterHorizon",
    "ExpireOffsets",
    "ExpireProducers",
    "ForgetBucket",
    "ForgetTable",
    "ForgetTopic",
    "Found",
    "HoldSource",
    "LapseSubscription",
    "LeaveBucket",
    "LimitBucket",
    "LinkStreams",
    "MakeBucket",
    "MarkCommit",
    "NoteTable",
    "OpenStream",
    "OpenTable",
    "PublishSnapshot",
    "PutSubscription",
    "RegisterNode",
    "RegisterSchema",
    "ReleaseSource",
    "RemoveNode",
    "RemoveStream",
    "RenewLease",
    "RenewPlanning",
    "ReplaceExtents",
    "RetainStream",
    "SealBucket",
    "SetAttributes",
    "SetSchemaRules",
    "SetSettings",
    "TakeGroup",
    "TakePlanning",
    "TouchStream",
    "TruncateStreams",
    "UnsealBucket",
    "WakeSubscription",
]
