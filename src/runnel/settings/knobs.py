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

    # Doors

    http: Annotated[
        str,
        Knob(
            "Where HTTP is served.",
            unit="address",
            presets={"small": "0.0.0.0:8080", "large": "0.0.0.0:8080", "simulated": "127.0.0.1:0"},
        ),
    ] = "127.0.0.1:8080"
    zone: Annotated[str, Knob("The availability zone of this node; clients of the same zone are sent here first.")] = ""
    drain_ms_max: Annotated[
        int,
        Knob("How long a node that was asked to stop lets open requests finish.", unit="ms", low=0, high=600_000),
    ] = 10_000

    # Telemetry

    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        Knob("The least important events that are logged."),
    ] = "info"
    log_format: Annotated[
        Literal["text", "json"],
        Knob("How a log line is written: for people or for programs.", presets={"small": "json", "large": "json"}),
    ] = "text"
