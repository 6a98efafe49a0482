"""Iceberg's and Delta's own Spark runtimes, to read our tables as other people's Spark does: fetched from Maven.

    from tools.spark_runtimes import session

    with session(folder, iceberg={"lake": "jdbc:sqlite:/data/catalog.sqlite"}, warehouse="file:///…") as spark:
        spark.table("lake.runnel.orders")                       Iceberg, through its catalog
        spark.read.format("delta").load("file:///…/orders-1a")   Delta

`python tools/spark_runtimes.py` fetches the jars (about 75 MB, kept in .cache) and prints their folder. Needs Java 17
and mvn (Debian: maven).
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ICEBERG, DELTA, SQLITE = "1.12.0", "4.4.0", "3.50.3.0"
CACHE = Path(__file__).resolve().parent.parent / ".cache" / f"spark-runtimes-{ICEBERG}-{DELTA}"
WANTED = {
    "org.apache.iceberg": f"iceberg-spark-runtime-4.1_2.13:{ICEBERG}",
    "io.delta": f"delta-spark_4.1_2.13:{DELTA}",
    "org.xerial": f"sqlite-jdbc:{SQLITE}",
}


def jars() -> Path:
    """The folder with the jars, fetched at first."""
    done = CACHE / ".done"
    if not done.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        dependencies = "".join(
            f"<dependency><groupId>{group}</groupId><artifactId>{what.partition(':')[0]}</artifactId>"
            f"<version>{what.partition(':')[2]}</version></dependency>"
            for group, what in WANTED.items()
        )
        (CACHE / "pom.xml").write_text(
            '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
            f"<groupId>peer</groupId><artifactId>runtimes</artifactId><version>1</version><dependencies>{dependencies}"
            "</dependencies></project>"
        )
        command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={CACHE / 'jars'}"]
        command.append(f"-DincludeGroupIds={','.join([*WANTED, 'io.unitycatalog'])}")
        subprocess.run(command, cwd=CACHE, check=True, stdin=subprocess.DEVNULL, stdout=sys.stderr)
        done.touch()
    return CACHE / "jars"


@contextmanager
def session(folder: Path, *, iceberg: dict[str, str], warehouse: str) -> Iterator[Any]:
    """A Spark session on this machine with both runtimes; `iceberg` are catalogs by name, as JDBC addresses."""
    from pyspark.sql import SparkSession

    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    classes = ",".join(str(each) for each in sorted(jars().glob("*.jar")))
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("reader")
        .config("spark.jars", classes)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config(
            "spark.sql.extensions",
            "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions,io.delta.sql.DeltaSparkSessionExtension",
        )
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    )
    for name, address in iceberg.items():
        place = f"spark.sql.catalog.{name}"
        builder = builder.config(place, "org.apache.iceberg.spark.SparkCatalog").config(f"{place}.warehouse", warehouse)
        if address.startswith("jdbc:"):
            builder = (
                builder.config(f"{place}.catalog-impl", "org.apache.iceberg.jdbc.JdbcCatalog")
                .config(f"{place}.uri", address)
                .config(f"{place}.jdbc.schema-version", "V1")
            )
        else:
            builder = builder.config(f"{place}.type", "rest").config(f"{place}.uri", address)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


if __name__ == "__main__":
    print(jars())
