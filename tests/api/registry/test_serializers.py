"""confluent-kafka's own serializers against the registry: what one node was told, a reader at the other understands."""

import base64

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

pytestmark = pytest.mark.leaves("its HTTP client keeps connections")

AVRO = """{"type": "record", "name": "Order", "fields": [
  {"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": null}]}"""
JSON = """{"$schema": "http://json-schema.org/draft-07/schema#", "title": "Order", "type": "object",
  "properties": {"id": {"type": "integer"}, "home": {"$ref": "address.json"}}, "required": ["id"]}"""
ADDRESS = '{"title": "Address", "type": "object", "properties": {"street": {"type": "string"}}}'


@pytest.fixture
def clients(nodes):
    made = [SchemaRegistryClient({"url": address}) for address in nodes.addresses]
    yield made
    for client in made:
        client.close()


def value_of(topic):
    return SerializationContext(topic, MessageField.VALUE)


def test_avro(clients):
    here, there = clients
    write = AvroSerializer(here, AVRO)
    read = AvroDeserializer(there)
    order = {"id": 7, "note": "x"}
    body = write(order, value_of("avro-orders"))
    assert body[:1] == b"\0"
    assert read(body, value_of("avro-orders")) == order
    assert there.get_latest_version("avro-orders-value").schema_id == int.from_bytes(body[1:5], "big")
    strict = AvroSerializer(there, AVRO, conf={"auto.register.schemas": False})
    assert strict(order, value_of("avro-orders")) == body
    latest = AvroSerializer(there, None, conf={"auto.register.schemas": False, "use.latest.version": True})
    assert latest(order, value_of("avro-orders")) == body


def test_json_with_a_reference(clients):
    here, there = clients
    here.register_schema("address", Schema(ADDRESS, "JSON"))
    schema = Schema(JSON, "JSON", [SchemaReference("address.json", "address", 1)])
    write = JSONSerializer(schema, here)
    read = JSONDeserializer(schema, schema_registry_client=there)
    order = {"id": 7, "home": {"street": "x"}}
    assert read(write(order, value_of("json-orders")), value_of("json-orders")) == order


def proto_files():
    """Two files as generated code has them: one imports the other."""
    pool = descriptor_pool.DescriptorPool()
    inner = descriptor_pb2.FileDescriptorProto(name="shop/address.proto", package="shop", syntax="proto3")
    address = inner.message_type.add(name="Address")
    address.field.add(name="street", number=1, type=9, label=1)
    outer = descriptor_pb2.FileDescriptorProto(
        name="shop/order.proto", package="shop", syntax="proto3", dependency=["shop/address.proto"]
    )
    outer.message_type.add(name="First")
    order = outer.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=3, label=1)
    order.field.add(name="home", number=2, type=11, label=1, type_name=".shop.Address")
    for file in (inner, outer):
        pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def test_protobuf_with_an_import(clients):
    here, there = clients
    order = proto_files()(id=7)
    order.home.street = "x"
    conf = {"use.deprecated.format": False}
    write = ProtobufSerializer(type(order), here, conf)
    body = write(order, value_of("proto-orders"))
    assert body[5:7] == b"\x02\x02"  # one index, zigzag: the second message of its file
    assert ProtobufDeserializer(type(order), conf, there)(body, value_of("proto-orders")) == order
    registered = there.get_latest_version("proto-orders-value")
    assert registered.schema.references[0].name == "shop/address.proto"
    assert registered.schema.schema_str.startswith('syntax = "proto3";')
    serialized = there.get_schema(registered.schema_id, fmt="serialized").schema_str
    read = descriptor_pb2.FileDescriptorProto()
    read.ParseFromString(base64.b64decode(serialized))
    assert [message.name for message in read.message_type] == ["First", "Order"]
    again = ProtobufSerializer(type(order), there, {**conf, "auto.register.schemas": False})
    assert again(order, value_of("proto-orders")) == body


def test_the_client_sees_what_was_refused_in_its_own_words(clients):
    here, _ = clients
    here.register_schema("strict", Schema('{"type":"record","name":"R","fields":[]}'))
    wrong = Schema('{"type":"record","name":"R","fields":[{"name":"x","type":"int"}]}')
    assert here.test_compatibility("strict", wrong) is False
    with pytest.raises(SchemaRegistryError) as told:
        here.register_schema("strict", wrong)
    assert (told.value.http_status_code, told.value.error_code) == (409, 409)
    with pytest.raises(SchemaRegistryError) as told:
        here.get_schema(99_999)
    assert told.value.error_code == 40403


def test_the_client_administers(clients):
    here, there = clients
    here.register_schema("managed", Schema('"string"'))
    here.set_compatibility("managed", "FULL")
    assert there.get_compatibility("managed") == "FULL"
    here.update_mode("managed", "READONLY")
    assert there.get_mode("managed") == "READONLY"
    there.update_mode("managed", "READWRITE")
    assert "managed" in there.get_subjects()
    assert there.get_versions("managed") == [1]
    assert there.get_schema_types() == ["AVRO", "JSON", "PROTOBUF"]
    assert there.get_contexts() == ["."]
    assert there.delete_subject("managed") == [1]
    assert there.delete_subject("managed", permanent=True) == [1]
