"""Confluent's own Java serializer and client against a node's registry, side by side with its Python ones.

    python tests/conformance/registry/run.py

The jar comes from Maven Central (30 MB, kept in .cache): Apache Pinot publishes Confluent's Avro serializer, its schema
registry client and all that they need in one. Python speaks to it through py4j, so a Java runtime (17 or newer) is
enough. Prints JSON; ends with 1 if a check failed.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pyspark
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

ROOT = Path(__file__).resolve().parents[3]
VERSION = "1.5.0"
NAME = f"pinot-confluent-avro-{VERSION}-shaded.jar"
URL = f"https://repo1.maven.org/maven2/org/apache/pinot/pinot-confluent-avro/{VERSION}/{NAME}"
SHA256 = "fcba31945ab17f393008f46975b37dd12516e59f536b0bec5a19ab9fd84464d1"
JAR = ROOT / ".cache" / "java-serializers" / NAME

V1 = {"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "id", "type": "long"}]}
V2 = {**V1, "fields": [*V1["fields"], {"name": "note", "type": "string", "default": "none"}]}
BROKEN = {**V1, "fields": [*V1["fields"], {"name": "must", "type": "string"}]}
CUSTOMER = {"type": "record", "name": "Customer", "namespace": "shop", "fields": [{"name": "name", "type": "string"}]}
OF_CUSTOMER = {**V1, "name": "Sale", "fields": [{"name": "of", "type": "shop.Customer"}]}


def fetch_jar() -> Path:
    if not JAR.exists():
        JAR.parent.mkdir(parents=True, exist_ok=True)
        with urlopen(URL, timeout=60) as response:
            body = response.read()
        assert hashlib.sha256(body).hexdigest() == SHA256, f"{URL} is not what it was"
        partial = JAR.with_suffix(".partial")
        partial.write_bytes(body)
        partial.rename(JAR)
    return JAR


@contextmanager
def a_node() -> Iterator[str]:
    """The HTTP address of a node that runs as long as the block."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "runnel", "serve", "--json", "--log-level", "warning"]
        command += ["--http", "127.0.0.1:0", "--kafka", "127.0.0.1:0", "--data-dir", folder]
        clean = {name: value for name, value in os.environ.items() if not name.startswith("RUNNEL_")}
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=clean) as node:
            try:
                assert node.stdout is not None
                yield json.loads(node.stdout.readline())["ready"]["http"]
            finally:
                node.terminate()


@contextmanager
def java() -> Iterator[JavaGateway]:
    py4j = next(Path(pyspark.__file__).parent.glob("jars/py4j-*.jar"))
    port = launch_gateway(
        jarpath=str(py4j), classpath=str(fetch_jar()), die_on_exit=True, javaopts=["-Xmx256m"], redirect_stderr=None
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    try:
        yield gateway
    finally:
        gateway.shutdown()


class JavaSide:
    """The Java classes under the names that Java users know."""

    def __init__(self, gateway: JavaGateway, address: str) -> None:
        self.jvm = gateway.jvm
        self.confluent = gateway.jvm.io.confluent.kafka
        self.avro = gateway.jvm.org.apache.avro
        self.settings = gateway.jvm.java.util.HashMap()
        self.settings.put("schema.registry.url", address)
        self.client = self.confluent.schemaregistry.client.CachedSchemaRegistryClient(address, 100)

    def schema(self, document):
        return self.avro.Schema.Parser().parse(json.dumps(document))

    def avro_schema(self, document):
        return self.confluent.schemaregistry.avro.AvroSchema(json.dumps(document))

    def record(self, document, **values):
        made = self.avro.generic.GenericData.Record(self.schema(document))
        for name, value in values.items():
            made.put(name, value)
        return made

    def serializer(self, **more):
        made = self.confluent.serializers.KafkaAvroSerializer()
        made.configure(self._settings(more), False)
        return made

    def deserializer(self, **more):
        made = self.confluent.serializers.KafkaAvroDeserializer()
        made.configure(self._settings(more), False)
        return made

    def _settings(self, more):
        merged = self.jvm.java.util.HashMap(self.settings)
        for name, value in more.items():
            merged.put(name.replace("_", "."), value)
        return merged


def refusal(work):
    """The (status, number) with which Java's client was refused."""
    try:
        work()
    except Py4JJavaError as told:
        error = told.java_exception
        while error is not None and "RestClientException" not in error.getClass().getName():
            error = error.getCause()
        return (error.getStatus(), error.getErrorCode()) if error is not None else None
    return "nothing was refused"


def checks(side: JavaSide, python: SchemaRegistryClient):
    """Pairs of a name and whether it holds."""
    value = SerializationContext("orders", MessageField.VALUE)
    body = bytes(side.serializer().serialize("orders", side.record(V1, id=7)))
    yield "java writes and python reads", AvroDeserializer(python)(body, value) == {"id": 7}
    yield "java writes and java reads", side.deserializer().deserialize("orders", body).get("id") == 7
    second = AvroSerializer(python, json.dumps(V2))({"id": 8, "note": "x"}, value)
    yield (
        "python writes a second version and java reads",
        str(side.deserializer().deserialize("orders", second)) == '{"id": 8, "note": "x"}',
    )
    same = AvroSerializer(python, json.dumps(V1, indent=2))({"id": 7}, value)
    yield "both call one schema by one id", same == body
    strict = side.serializer(auto_register_schemas=False, use_latest_version=False)
    yield (
        "java finds a schema that it may not register",
        bytes(strict.serialize("orders", side.record(V2, id=8, note="x"))) == second,
    )
    latest = side.serializer(auto_register_schemas=False, use_latest_version=True)
    yield (
        "java writes by the latest version",
        bytes(latest.serialize("orders", side.record(V2, id=8, note="x"))) == second,
    )

    client = side.client
    metadata = client.getLatestSchemaMetadata("orders-value")
    yield (
        "java sees the latest version",
        (metadata.getVersion(), metadata.getId()) == (2, int.from_bytes(second[1:5], "big")),
    )
    yield "java lists versions", list(client.getAllVersions("orders-value")) == [1, 2]
    yield "java lists subjects", "orders-value" in list(client.getAllSubjects())
    yield (
        "java is refused what does not fit",
        refusal(lambda: client.register("orders-value", side.avro_schema(BROKEN))) in [(409, 409), (409, 40901)],
    )
    yield "java asks whether it fits", client.testCompatibility("orders-value", side.avro_schema(BROKEN)) is False
    yield (
        "java hears why",
        any(
            "READER_FIELD_MISSING_DEFAULT_VALUE" in message
            for message in client.testCompatibilityVerbose("orders-value", side.avro_schema(BROKEN))
        ),
    )
    yield "java sets a level", client.updateCompatibility("orders-value", "FULL_TRANSITIVE") == "FULL_TRANSITIVE"
    yield "java reads a level", client.getCompatibility("orders-value") == "FULL_TRANSITIVE"
    yield "java reads the mode", client.getMode() == "READWRITE"
    yield "java does not find what is not there", refusal(lambda: client.getSchemaById(99_999)) == (404, 40403)
    yield "java does not find a subject", refusal(lambda: client.getLatestSchemaMetadata("none")) == (404, 40401)

    client.register("customer", side.avro_schema(CUSTOMER))
    entities = side.confluent.schemaregistry.client.rest.entities
    references = side.jvm.java.util.ArrayList()
    references.add(entities.SchemaReference("shop.Customer", "customer", 1))
    texts = side.jvm.java.util.HashMap()
    texts.put("shop.Customer", json.dumps(CUSTOMER))
    referring = side.confluent.schemaregistry.avro.AvroSchema(json.dumps(OF_CUSTOMER), references, texts, None)
    made = client.register("sale", referring)
    fresh = side.confluent.schemaregistry.client.CachedSchemaRegistryClient(
        side.settings.get("schema.registry.url"), 100
    )
    yield (
        "java follows references",
        fresh.getSchemaById(made).rawSchema().getField("of").schema().getName() == "Customer",
    )
    yield (
        "java may not delete what is referred to",
        refusal(lambda: client.deleteSchemaVersion("customer", "1")) == (422, 42206),
    )
    yield "java deletes", list(client.deleteSubject("orders-value")) == [1, 2]
    yield "java deletes for good", list(client.deleteSubject("orders-value", True)) == [1, 2]


def main() -> int:
    with a_node() as address, java() as gateway:
        done = dict(checks(JavaSide(gateway, address), SchemaRegistryClient({"url": address})))
    passed = sum(done.values())
    failed = [name for name, good in done.items() if not good]
    print(json.dumps({"passed": passed, "failed": failed}, indent=2))  # noqa: T201  a program that prints
    return 0 if passed == len(done) else 1


if __name__ == "__main__":
    sys.exit(main())
