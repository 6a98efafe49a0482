"""Spark does the work: the only home of PySpark.

A driver in this process hands pieces of work to Python processes on executors. Each reads slices of write-ahead objects
by ranges, writes its own Parquet files and gives back facts about them: records never pass through the JVM, which
schedules, starts again what was lost, and keeps executors within their bounds.

    session   a Spark session with our settings, its log in a file
    workers   Workers on it
"""

from runnel.table.job.session import SparkSettings
from runnel.table.job.workers import SparkWorkers

__all__ = ["SparkSettings", "SparkWorkers"]
