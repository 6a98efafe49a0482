"""Schemas by their ids: references, retries, refusals, and what is kept."""

import base64
import json
import pickle
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from runnel.errors import Corrupt, NotThere, Refused, Unavailable
from runnel.metadata.nodes import Node
from runnel.metadata.schemas import Reference
from runnel.metadata.state import ShardState
from runnel.metadata.updates import RegisterSchema
from runnel.table.schemas import Schema, Schemas, addresses_of, at_hand_in
from runnel.table.shapes import Format

AVRO = '{"type":"record","name":"R","fields":[]}'


class Registry:
    """A registry that says what a test lets it say."""

    def __init__(self):
        self.answers = {}
        self.asked = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.asked.append((self.path, self.headers.get("Authorization")))
                answer = outer.answers.get(self.path, (404, {"error_code": 40403, "message": "Schema not found"}))
                if isinstance(answer, list):
                    answer = answer.pop(0) if len(answer) > 1 else answer[0]
                status, body = answer
                sent = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(sent)))
                self.end_headers()
                self.wfile.write(sent)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = False
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()
        self.address = f"http://127.0.0.1:{self.server.server_port}"

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def registry():
    made = Registry()
    yield made
    made.close()


def patient():
    waited = []
    return waited, waited.append


def test_a_schema_comes_with_its_kind_and_is_asked_for_once(registry):
    registry.answers = {"/schemas/ids/7": (200, {"schema": AVRO})}
    schemas = Schemas([registry.address + "/"])
    assert schemas.schema(7) == Schema(7, "AVRO", AVRO)
    assert schemas.schema(7) == Schema(7, "AVRO", AVRO)
    assert schemas.writer(7).format is Format.AVRO
    assert len(registry.asked) == 1
    copy = pickle.loads(pickle.dumps(schemas))
    registry.answers = {}
    assert copy.schema(7).text == AVRO


def test_references_come_dependencies_first_and_each_once(registry):
    def ref(name):
        return {"name": f"{name}.proto", "subject": f"of/{name}", "version": 3}

    registry.answers = {
        "/schemas/ids/1": (
            200,
            {"schema": "a", "schemaType": "PROTOBUF", "references": [ref("b"), ref("c")]},
        ),
        "/subjects/of%2Fb/versions/3?deleted=true": (200, {"schema": "B", "references": [ref("c")]}),
        "/subjects/of%2Fc/versions/3?deleted=true": (200, {"schema": "C"}),
    }
    schema = Schemas([registry.address]).schema(1)
    assert schema.references == (("c.proto", "C"), ("b.proto", "B"))
    assert schema.kind == "PROTOBUF"
    assert len(registry.asked) == 3


def test_references_in_a_circle_are_refused(registry):
    circle = [{"name": "a", "subject": "a", "version": 1}]
    registry.answers = {
        "/schemas/ids/1": (200, {"schema": "a", "references": circle}),
        "/subjects/a/versions/1?deleted=true": (200, {"schema": "a", "references": circle}),
    }
    with pytest.raises(Refused, match="circle"):
        Schemas([registry.address]).schema(1)


def test_an_unknown_id_is_not_there_and_may_come_later(registry):
    schemas = Schemas([registry.address])
    with pytest.raises(NotThere, match=r"schema 9 is not in the schema registry: Schema not found"):
        schemas.schema(9)
    registry.answers = {"/schemas/ids/9": (200, {"schema": AVRO})}
    assert schemas.schema(9).text == AVRO


def test_a_registry_that_stumbles_is_asked_again(registry):
    registry.answers = {"/schemas/ids/1": [(503, b"busy"), (500, b""), (200, {"schema": AVRO})]}
    waited, pause = patient()
    assert Schemas([registry.address], pause=pause).schema(1).text == AVRO
    assert waited == [0.1, 0.2]


def test_a_registry_that_is_away_is_unavailable_after_so_many_tries(free_port):
    waited, pause = patient()
    away = f"http://me:secret@127.0.0.1:{free_port}"
    with pytest.raises(Unavailable, match="Connection refused") as told:
        Schemas([away], pause=pause, tries_max=3).schema(4)
    assert len(waited) == 2
    assert "secret" not in str(told.value)
    with pytest.raises(Unavailable, match="no schema registry is known"):
        Schemas([]).schema(4)


def test_the_next_address_answers_for_one_that_is_away(registry, free_port):
    registry.answers = {"/schemas/ids/1": (200, {"schema": AVRO})}
    waited, pause = patient()
    assert Schemas([f"http://127.0.0.1:{free_port}", registry.address], pause=pause).schema(1).text == AVRO
    assert waited == []


def test_credentials_travel_as_basic_authentication(registry):
    registry.answers = {"/schemas/ids/1": (200, {"schema": AVRO})}
    Schemas([registry.address.replace("//", "//me:s%2Fcret@")]).schema(1)
    ((_, sent),) = registry.asked
    assert base64.b64decode(sent.removeprefix("Basic ")) == b"me:s/cret"


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        ((401, {"message": "who are you"}), Refused, "401 who are you"),
        ((200, b"<html>"), Corrupt, "no JSON"),
        ((200, {"id": 1}), Corrupt, "holds no schema"),
        ((200, {"schema": "x", "schemaType": "THRIFT"}), Refused, "THRIFT"),
    ],
)
def test_other_answers_are_told_apart(registry, answer, error, words):
    registry.answers = {"/schemas/ids/1": answer}
    with pytest.raises(error, match=words):
        Schemas([registry.address]).schema(1)


def test_where_to_ask():
    nodes = [
        Node(2, b"", {"http": "http://b:1"}),
        Node(1, b"", {"http": "http://a:1"}, draining=True),
        Node(3, b"", {"kafka": "c:1"}),
    ]
    assert addresses_of(nodes) == ("http://b:1", "http://a:1")
    assert addresses_of(nodes, "http://x, http://y") == ("http://x", "http://y")
    with pytest.raises(Refused, match="write http"):
        Schemas(["localhost:8081"])


def test_inside_a_node_nobody_is_asked():
    root = ShardState(0, 1)
    for update in (
        RegisterSchema("b", "JSON", "B", b"b" * 16, [], {}, 0, 0),
        RegisterSchema("a", "JSON", "A", b"a" * 16, [Reference("b.json", "b", 1)], {}, 0, 0),
    ):
        update.check(root)
        update.apply(root, 0, set())
    schemas = Schemas((), at_hand=at_hand_in(root))
    assert schemas.schema(2) == Schema(2, "JSON", "A", (("b.json", "B"),))
    copy = pickle.loads(pickle.dumps(schemas))
    assert copy.schema(2) == schemas.schema(2)
    with pytest.raises(Unavailable, match="no schema registry is known"):
        schemas.schema(3)


def test_a_copy_takes_along_the_newest_schemas_and_learns_from_others():
    root = ShardState(0, 1)
    for number in range(5):
        RegisterSchema("s", "JSON", f"{number}" * 100, b"%016d" % number, [], {}, root.registry.changes, 0).apply(
            root, 0, set()
        )
    taken = pickle.loads(pickle.dumps(Schemas(()).take_along(root, 350)))
    assert [taken.schema(number).text[0] for number in (5, 4, 3)] == ["4", "3", "2"]
    with pytest.raises(Unavailable):
        taken.schema(2)
    taken.learn_from(Schemas(()).take_along(root))
    assert taken.schema(1).text[0] == "0"
