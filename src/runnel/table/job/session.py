"""A Spark session for the table service: small, quiet, without a web page, its log in a file.

The JVM is a child of this process and ends with it. What it prints goes into the log as well, because a terminal with a
progress bar is no place for it.
"""

import os
import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pyspark import SparkConf, SparkContext

from runnel.errors import Refused, Unavailable

LOG4J = """rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {log}
appender.file.filePattern = {log}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd'T'HH:mm:ss.SSS}} %p %c{{1}} %m%n%ex
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 3
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """`memory_bytes` is what one executor's Python processes may take together; a cluster's containers are made for it."""

    master: str = "local[*]"
    folder: Path
    """For the log and what Spark puts aside."""
    memory_bytes: int = 1 << 30
    conf: Mapping[str, str] = field(default_factory=dict)
    """Anything else that Spark knows, by its own names."""


def start(settings: SparkSettings) -> SparkContext:
    """Start the JVM and connect to the master. Waits for seconds, longer for a cluster that is not there."""
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        raise Refused("tables need Java 17 or newer: install it (Debian: openjdk-17-jre-headless), or set JAVA_HOME")
    settings.folder.mkdir(parents=True, exist_ok=True)
    log = settings.folder / "spark.log"
    log4j = settings.folder / "log4j2.properties"
    log4j.write_text(LOG4J.format(log=log), encoding="utf-8")
    master = settings.master
    if master.startswith("local[") and "," not in master:
        master = f"{master[:-1]},4]"  # a task that was lost is tried again, as on a cluster
    conf = SparkConf(loadDefaults=True)
    for name, value in (defaults(settings, log4j) | dict(settings.conf)).items():
        conf.set(name, value)
    if master.startswith("local"):
        # Nobody else is to connect; without this, Spark listens at the machine's own address.
        conf.setIfMissing("spark.driver.host", "127.0.0.1")
        conf.setIfMissing("spark.driver.bindAddress", "127.0.0.1")
    conf.setMaster(master)
    conf.setAppName("runnel tables")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with log.open("ab") as sink, _errors_into(sink.fileno()):
        try:
            context = SparkContext(conf=conf)
        except Exception as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise Unavailable(f"Spark at {settings.master} does not start ({lines[0][:300]}): see {log}") from error
    context.setLogLevel("WARN")
    return context


def defaults(settings: SparkSettings, log4j: Path) -> dict[str, str]:
    """What we ask of Spark, before the settings have their say."""
    mib = max(256, settings.memory_bytes >> 20)
    return {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{log4j} -XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "spark.executor.memory": "512m",
        # For YARN and Kubernetes, whose containers hold executors to it. Spark's own limit for Python
        # (spark.executor.pyspark.memory) is one of addresses, of which Arrow takes many more than it fills.
        "spark.executor.memoryOverhead": f"{mib}m",
        "spark.python.daemon.module": "runnel.table.forks",
        "spark.python.worker.reuse": "true",
        "spark.python.worker.memory": "256m",
        "spark.task.maxFailures": "4",
        "spark.driver.maxResultSize": "512m",
        "spark.local.dir": str(settings.folder),
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.legacy.createHiveTableByDefault": "false",
    }


class _errors_into:  # noqa: N801  reads as a verb
    """While it lasts, what this process and children it starts write to standard error goes to a file."""

    def __init__(self, sink: int) -> None:
        self._sink = sink
        self._saved = -1

    def __enter__(self) -> None:
        with suppress(OSError):
            sys.stderr.flush()
        self._saved = os.dup(2)
        os.dup2(self._sink, 2)

    def __exit__(self, *_: object) -> None:
        os.dup2(self._saved, 2)
        os.close(self._saved)
