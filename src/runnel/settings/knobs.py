"""The knobs. To add one, add a field: units and bounds go last in its name, so that relatives line up.

`docs/settings.md` is made from this file (`make docs`).
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from runnel.settings.knob import Knob

MiB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a node behaves."""

    preset: Annotated[
        Literal["laptop", "small", "large", "simulated"],
        Knob("Which set of values to start from, before anything else is said."),
    ] = "laptop"

    # Places

    data_dir: Annotated[str, Knob("The folder for everything that this node keeps on its own disk.", unit="path")] = (
        "runnel-data"
    )
    objects: Annotated[
        str,
        Knob(
            "Where objects live: file:///folder, s3://bucket/prefix, gs://…, az://… or memory://. "
            "When left empty, files below data_dir.",
            unit="url",
            presets={"simulated": "memory://"},
        ),
    ] = ""
    ledger: Annotated[
        str,
        Knob(
            "Where the order of things is kept: sqlite:///file, postgresql://user@host/database, objects: or memory:. "
            "When left empty, SQLite below data_dir.",
            unit="url",
            presets={"simulated": "memory:"},
        ),
    ] = ""

    shards: Annotated[
        int,
        Knob(
            "Into how many shards a new cluster divides its streams; one that exists keeps its own.", low=1, high=4096
        ),
    ] = 16

    # Doors

    http: Annotated[
        str,
        Knob(
            "Where HTTP is served.",
            unit="address",
            presets={"small": "0.0.0.0:8080", "large": "0.0.0.0:8080", "simulated": "127.0.0.1:0"},
        ),
    ] = "127.0.0.1:8080"
    http_advertised: Annotated[
        str,
        Knob(
            "The address under which webhooks are told to call this cluster back, such as https://streams.example.com. "
            "When left empty, where HTTP is served.",
        ),
    ] = ""
    webhooks_local: Annotated[
        bool,
        Knob(
            "Whether webhooks of subscriptions may be on this machine, over plain HTTP.",
            presets={"small": False, "large": False},
        ),
    ] = True
    http_long_poll_ms: Annotated[
        int,
        Knob("How long a long-poll waits for something new before it is answered with nothing.", low=10, high=600_000),
    ] = 20_000
    http_sse_ms_max: Annotated[
        int,
        Knob(
            "How long an event stream stays open; its reader then comes back where it was.", low=1_000, high=86_400_000
        ),
    ] = 60_000
    kafka: Annotated[
        str,
        Knob(
            "Where Kafka clients are served.",
            unit="address",
            presets={"small": "0.0.0.0:9092", "large": "0.0.0.0:9092", "simulated": "127.0.0.1:0"},
        ),
    ] = "127.0.0.1:9092"
    kafka_advertised: Annotated[
        str,
        Knob(
            "HOST:PORT under which Kafka clients are told to find this node. When left empty, where it listens, "
            "or this machine's name if that is every interface; port 0 stands for the port that it listens at.",
        ),
    ] = ""
    processes: Annotated[
        int,
        Knob(
            "Processes of this node, each with a number of its own and the next higher port of every door; 0 is one for "
            "each core. Bounds of memory hold for each of them.",
            low=0,
            high=1024,
            presets={"large": 0},
        ),
    ] = 1
    zone: Annotated[str, Knob("The availability zone of this node; clients of the same zone are sent here first.")] = ""
    node_id: Annotated[
        int,
        Knob(
            "The number of this node in its cluster; -1 takes the lowest that is free and keeps it.",
            low=-1,
            high=2**31 - 1,
        ),
    ] = -1
    lease_ms: Annotated[
        int,
        Knob(
            "How long a silent node is thought to be alive; then others serve its shards.",
            unit="ms",
            low=500,
            high=600_000,
        ),
    ] = 5000
    drain_ms_max: Annotated[
        int,
        Knob("How long a node that was asked to stop lets open requests finish.", unit="ms", low=0, high=600_000),
    ] = 10_000

    # Kafka clients

    auto_create_topics: Annotated[
        bool, Knob("Whether a topic is made when a client asks for one that is not there, as Kafka does.")
    ] = True
    topic_partitions: Annotated[
        int, Knob("How many partitions a topic has whose maker did not say.", low=1, high=100_000)
    ] = 1
    kafka_connections_max: Annotated[
        int, Knob("Connections of Kafka clients; one more is closed at once.", low=1, high=1_000_000)
    ] = 20_000
    kafka_request_bytes_max: Annotated[
        int,
        Knob(
            "The largest request; one that says it is larger closes its connection.",
            unit="bytes",
            low=4096,
            high=2**31 - 1,
        ),
    ] = 100 * MiB
    kafka_receive_bytes_max: Annotated[
        int,
        Knob(
            "Memory for Kafka requests that have arrived in part; beyond it, others are not read on.",
            unit="bytes",
            low=MiB,
            presets={"large": 1024 * MiB},
        ),
    ] = 256 * MiB
    kafka_fetch_bytes_max: Annotated[
        int,
        Knob("The largest answer to one Fetch, whatever the client allows.", unit="bytes", low=4096, high=2**30),
    ] = 16 * MiB
    kafka_unsent_bytes_max: Annotated[
        int,
        Knob(
            "Memory for answers that Kafka clients have not taken yet; beyond it, a Fetch waits and gets nothing.",
            unit="bytes",
            low=MiB,
            presets={"large": 1024 * MiB},
        ),
    ] = 128 * MiB
    kafka_sessions_max: Annotated[
        int, Knob("Fetch sessions of Kafka clients; beyond it, clients are served without one.", low=0, high=1_000_000)
    ] = 1000
    kafka_idle_ms_max: Annotated[
        int, Knob("A Kafka connection that is silent for so long is closed.", unit="ms", low=1000)
    ] = 600_000

    # Commands

    bootstrap: Annotated[
        str,
        Knob(
            "Where the commands find their Kafka cluster, Runnel or any other: HOST:PORT, several with commas between "
            "them. When left empty, where the node of these settings listens for Kafka clients."
        ),
    ] = ""

    # Consumer groups

    group_initial_delay_ms: Annotated[
        int,
        Knob(
            "How long the first generation of a consumer group waits for more members to come.",
            unit="ms",
            low=0,
            high=300_000,
            presets={"small": 3000, "large": 3000},
        ),
    ] = 0
    group_session_ms_min: Annotated[
        int, Knob("The shortest session that a member of a classic group may ask for.", unit="ms", low=1)
    ] = 6000
    group_session_ms_max: Annotated[
        int, Knob("The longest session that a member of a classic group may ask for.", unit="ms", low=1)
    ] = 1_800_000
    consumer_session_ms: Annotated[
        int,
        Knob(
            "How long a member of a consumer group of the new protocol may be silent before others read for it.",
            unit="ms",
            low=100,
            high=1_800_000,
        ),
    ] = 45_000
    consumer_heartbeat_ms: Annotated[
        int,
        Knob(
            "How often members of consumer groups of the new protocol are told to send heartbeats.",
            unit="ms",
            low=10,
            high=600_000,
        ),
    ] = 5000
    group_members_max: Annotated[int, Knob("Members of one consumer group.", low=1, high=1_000_000)] = 5000
    group_metadata_bytes_max: Annotated[
        int,
        Knob(
            "What the members of one consumer group may bring along together: their protocols and subscriptions.",
            unit="bytes",
            low=1024,
            high=4 * MiB,
        ),
    ] = MiB
    groups_max: Annotated[
        int, Knob("Consumer groups with members that one node coordinates.", low=1, high=10_000_000)
    ] = 100_000
    offsets_kept_ms: Annotated[
        int,
        Knob(
            "How long committed offsets are kept of a group without members, or of one that only commits.",
            unit="ms",
            low=60_000,
        ),
    ] = 7 * 86_400_000
    offset_note_bytes_max: Annotated[
        int, Knob("What a consumer may say along with a committed offset.", unit="bytes", low=0, high=MiB)
    ] = 4096

    # Schemas

    registry: Annotated[
        str,
        Knob(
            "An outside schema registry that speaks Confluent's REST API, http://[NAME:SECRET@]HOST:PORT, several with "
            "commas between them. When left empty, the cluster keeps schemas itself, at the address of its HTTP door.",
            unit="url",
        ),
    ] = ""

    # Tables

    table_service: Annotated[
        bool,
        Knob("Whether a node keeps tables up to date in a process beside it, where Java is found."),
    ] = True
    table_age_ms_max: Annotated[
        int,
        Knob(
            "How long records wait at most before the table service begins to write them into their table.",
            unit="ms",
            low=0,
            high=86_400_000,
        ),
    ] = 10_000
    table_master: Annotated[
        str,
        Knob(
            "The Spark that does the work: local[*], spark://HOST:PORT, yarn, k8s://…; other things of Spark's are "
            "said in its own spark-defaults.conf."
        ),
    ] = "local[*]"
    table_memory_bytes: Annotated[
        int,
        Knob("Memory for the Python processes of one Spark executor.", unit="bytes", low=256 * MiB),
    ] = 1024 * MiB
    table_task_bytes: Annotated[
        int,
        Knob(
            "How much of a topic one task of the table service works through; larger makes larger files.",
            unit="bytes",
            low=MiB,
            high=1024 * MiB,
        ),
    ] = 32 * MiB
    table_catalog: Annotated[
        str,
        Knob(
            "The Iceberg catalog: sqlite:///FILE, postgresql://…, http(s)://… for a REST catalog, or the name of one "
            "in pyiceberg's own configuration. When left empty, SQLite below data_dir.",
            unit="url",
        ),
    ] = ""
    table_catalog_ms_max: Annotated[
        int,
        Knob("How long the catalog may take for a commit before the next round tries again.", unit="ms", low=1000),
    ] = 60_000
    table_namespace: Annotated[str, Knob("The namespace of the catalog in which topics become tables.")] = "runnel"

    # Appends

    object_bytes_max: Annotated[
        int,
        Knob(
            "An upload starts once this much is gathered.",
            unit="bytes",
            low=4096,
            high=256 * MiB,
            presets={"large": 8 * MiB},
        ),
    ] = 4 * MiB
    object_age_ms_max: Annotated[
        int,
        Knob(
            "An upload starts at the latest once its first batch has waited this long.", unit="ms", low=1, high=60_000
        ),
    ] = 200
    uploads_max: Annotated[
        int, Knob("Objects on their way to the store at once.", low=1, high=256, presets={"large": 16})
    ] = 8
    inflight_bytes_max: Annotated[
        int,
        Knob(
            "Bytes of appends taken in and not yet answered; beyond it, clients are not read from.",
            unit="bytes",
            low=MiB,
            presets={"large": 256 * MiB},
        ),
    ] = 64 * MiB
    producers_kept_ms: Annotated[
        int,
        Knob("A producer that is silent for longer is forgotten, and its retries with it.", unit="ms", low=60_000),
    ] = 7 * 86_400_000

    # Reads

    cache_bytes_max: Annotated[
        int,
        Knob(
            "Memory for objects that were written or read lately.",
            unit="bytes",
            low=MiB,
            presets={"small": 256 * MiB, "large": 1024 * MiB},
        ),
    ] = 128 * MiB
    loading_bytes_max: Annotated[
        int,
        Knob(
            "Bytes on their way from the store for reads; when it is reached, more reads wait.",
            unit="bytes",
            low=1 * MiB,
            presets={"large": 256 * MiB},
        ),
    ] = 64 * MiB
    ahead_bytes_max: Annotated[
        int,
        Knob(
            "Bytes on their way from the store before anyone has asked for them.",
            unit="bytes",
            low=0,
            presets={"large": 128 * MiB},
        ),
    ] = 32 * MiB

    # Upkeep

    checkpoint_entries: Annotated[
        int, Knob("Ledger entries of a shard after which a checkpoint is written.", low=10, high=1_000_000)
    ] = 5000
    retention_check_ms: Annotated[
        int,
        Knob("How often topics are looked at for records that are too old or too many.", unit="ms", low=100),
    ] = 300_000
    sweep_every_ms: Annotated[
        int, Knob("How often the cluster looks for objects that nothing refers to.", unit="ms", low=1000)
    ] = 300_000
    sweep_grace_ms: Annotated[
        int,
        Knob(
            "How long an object that nothing refers to is kept: longer than the slowest upload or read takes.",
            unit="ms",
            low=1000,
        ),
    ] = 3_600_000

    # Telemetry

    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        Knob("The least important events that are logged."),
    ] = "info"
    log_format: Annotated[
        Literal["text", "json"],
        Knob("How a log line is written: for people or for programs.", presets={"small": "json", "large": "json"}),
    ] = "text"
