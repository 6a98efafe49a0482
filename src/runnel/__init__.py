"""Runnel: a stream and a table, one set of data.

A record's way through the house:

    api | broker -> codec -> ingest -> log -> metadata -> read -> table        ui, world beside them
"""

from runnel.version import __version__

__all__ = ["Engine", "EngineLimits", "Record", "__version__"]


def __getattr__(name: str) -> object:
    """`runnel.Engine` and `runnel.Record` are imported when they are asked for, so that the command line starts fast."""
    if name in {"Engine", "EngineLimits"}:
        from runnel import engine  # noqa: PLC0415  late on purpose

        return getattr(engine, name)
    if name == "Record":
        from runnel.codec.records import Record  # noqa: PLC0415  late on purpose

        return Record
    raise AttributeError(f"module 'runnel' has no attribute '{name}'")
