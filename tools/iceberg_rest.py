"""Iceberg's own REST catalog server (the one of its tests), on loopback: fetched from Maven, driven through py4j.

    with RestCatalog(folder) as catalog:
        catalog.uri      http://127.0.0.1:PORT
        catalog.stop(); catalog.start()      the same catalog, away for a while, at the same port

`python tools/iceberg_rest.py` fetches the jars (about 80 MB, kept in .cache). Needs Java 17 and mvn (Debian: maven).
"""

import subprocess
import sys
from pathlib import Path
from typing import Any, Self

VERSION = "1.11.0"
CACHE = Path(__file__).resolve().parent.parent / ".cache" / f"iceberg-rest-{VERSION}"
WANTED = (
    ("org.apache.iceberg", "iceberg-core", VERSION, ""),
    ("org.apache.iceberg", "iceberg-core", VERSION, "tests"),
    ("org.eclipse.jetty.ee10", "jetty-ee10-servlet", "12.1.14", ""),
    ("org.apache.hadoop", "hadoop-client-api", "3.4.2", ""),
    ("org.apache.hadoop", "hadoop-client-runtime", "3.4.2", ""),
    ("org.xerial", "sqlite-jdbc", "3.50.3.0", ""),
)


def jars() -> Path:
    """The folder with the jars, fetched at first."""
    done = CACHE / ".done"
    if not done.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        dependencies = "".join(
            f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
            + (f"<classifier>{kind}</classifier>" if kind else "")
            + "</dependency>"
            for group, name, version, kind in WANTED
        )
        (CACHE / "pom.xml").write_text(
            '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
            f"<groupId>peer</groupId><artifactId>rest</artifactId><version>1</version><dependencies>{dependencies}"
            "</dependencies></project>"
        )
        command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={CACHE / 'jars'}"]
        subprocess.run(command, cwd=CACHE, check=True, stdin=subprocess.DEVNULL, stdout=sys.stderr)
        done.touch()
    return CACHE / "jars"


class RestCatalog:
    """A JDBC catalog on SQLite behind Iceberg's REST servlet; gone when the block is left."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = 0
        self._server: Any = None

    def __enter__(self) -> Self:
        import pyspark
        from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

        (py4j,) = (Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar")
        self._folder.mkdir(parents=True, exist_ok=True)
        port, self._process = launch_gateway(
            jarpath=str(py4j),
            classpath=f"{jars()}/*",
            die_on_exit=True,
            javaopts=["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"],
            redirect_stderr=subprocess.DEVNULL,
            return_proc=True,
        )
        self._gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True))
        jvm = self._gateway.jvm
        properties = {
            "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
            "uri": f"jdbc:sqlite:{self._folder / 'rest.sqlite'}",
            "warehouse": f"file://{self._folder / 'warehouse'}",
            "jdbc.schema-version": "V1",
        }
        hadoop = jvm.org.apache.hadoop.conf.Configuration()
        backend = jvm.org.apache.iceberg.CatalogUtil.buildIcebergCatalog("backend", properties, hadoop)
        adapter = jvm.org.apache.iceberg.rest.RESTCatalogAdapter(backend)
        self._servlet = jvm.org.apache.iceberg.rest.RESTCatalogServlet(adapter)
        self.start()
        return self

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        jvm = self._gateway.jvm
        address = jvm.java.net.InetSocketAddress("127.0.0.1", self._port)
        self._server = jvm.org.eclipse.jetty.server.Server(address)
        context = jvm.org.eclipse.jetty.ee10.servlet.ServletContextHandler()
        context.setContextPath("/")
        context.addServlet(jvm.org.eclipse.jetty.ee10.servlet.ServletHolder(self._servlet), "/*")
        self._server.setHandler(context)
        self._server.start()
        self._port = self._server.getURI().getPort()

    def stop(self) -> None:
        self._server.stop()

    def __exit__(self, *_: object) -> None:
        self._gateway.shutdown()
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.terminate()
        self._process.wait(20)


if __name__ == "__main__":
    print(jars())
