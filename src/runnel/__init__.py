"""Runnel: a stream and a table, one set of data.

A record's way through the house:

    api | broker -> codec -> ingest -> log -> metadata -> read -> table        ui, world beside them
"""

__version__ = "0.1.0"
