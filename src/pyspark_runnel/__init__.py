"""What makes `spark.read.format("runnel")` work without a registration: Spark looks for modules of such names."""

from runnel.lake.source import RunnelDataSource as DefaultSource

__all__ = ["DefaultSource"]
