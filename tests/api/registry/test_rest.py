"""Confluent's REST API, as its documentation and its clients have it."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.api.registry.conftest import Asker

from runnel.api.registry.openapi import _QUERIES
from runnel.api.registry.routes import Paths
from runnel.metadata.schemas import TEXT_BYTES_MAX

V1 = {"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "id", "type": "long"}]}
V2 = {**V1, "fields": [*V1["fields"], {"name": "note", "type": "string", "default": ""}]}
BROKEN = {**V1, "fields": [*V1["fields"], {"name": "must", "type": "string"}]}


def record(name, *fields):
    return {"type": "record", "name": name, "fields": [{"name": field, "type": kind} for field, kind in fields]}


def refused(answer):
    status, body = answer
    assert body.keys() == {"error_code", "message"}
    return status, body["error_code"]


class TestRegistering:
    def test_versions_count_up_and_the_same_schema_keeps_its_id(self, ask):
        assert ask.register("orders-value", V1) == 1
        assert ask.register("orders-value", V2) == 2
        assert ask.register("orders-value", json.dumps(V1, indent=4)) == 1
        assert ask.register("other-value", V1) == 1
        assert ask.get("/subjects/orders-value/versions") == [1, 2]
        assert ask.get("/subjects") == ["orders-value", "other-value"]
        assert ask.get("/schemas/ids/2")["schema"] == json.dumps(V2, separators=(",", ":"))
        assert ask.get("/schemas/ids/1/versions") == [
            {"subject": "orders-value", "version": 1},
            {"subject": "other-value", "version": 1},
        ]
        assert ask.get("/schemas/ids/1/subjects") == ["orders-value", "other-value"]
        latest = ask.get("/subjects/orders-value/versions/latest")
        assert (latest["subject"], latest["version"], latest["id"]) == ("orders-value", 2, 2)
        assert "schemaType" not in latest
        assert json.loads(ask.get("/subjects/orders-value/versions/1/schema", raw=True)) == V1
        assert ask.get("/schemas/types") == ["AVRO", "JSON", "PROTOBUF"]

    def test_a_schema_is_looked_up_by_its_text(self, ask):
        ask.register("s", V1)
        found = ask.post("/subjects/s?normalize=False&deleted=False", {"schema": json.dumps(V1)})
        assert (found["subject"], found["version"], found["id"]) == ("s", 1, 1)
        assert refused(ask.post("/subjects/s", {"schema": json.dumps(V2)})) == (404, 40403)
        assert refused(ask.post("/subjects/unknown", {"schema": json.dumps(V1)})) == (404, 40401)
        assert ask.get(f"/schemas/guids/{found['guid']}")["schema"] == found["schema"]
        assert ask.get(f"/schemas/guids/{found['guid']}/ids") == [{"context": ".", "id": 1}]

    def test_unknown_things_have_their_numbers(self, ask):
        ask.register("s", V1)
        assert refused(ask.get("/subjects/none/versions")) == (404, 40401)
        assert refused(ask.get("/subjects/none/versions/1")) == (404, 40401)
        assert refused(ask.get("/subjects/s/versions/7")) == (404, 40402)
        assert refused(ask.get("/subjects/s/versions/0")) == (422, 42202)
        assert refused(ask.get("/subjects/s/versions/first")) == (422, 42202)
        assert refused(ask.get("/schemas/ids/99")) == (404, 40403)
        assert refused(ask.delete("/subjects/none")) == (404, 40401)
        assert refused(ask.delete("/subjects/s/versions/9")) == (404, 40402)

    def test_an_incompatible_schema_is_a_conflict_that_says_why(self, ask):
        ask.register("s", V1)
        status, body = ask.post("/subjects/s/versions", {"schema": json.dumps(BROKEN)})
        assert (status, body["error_code"]) == (409, 409)
        assert "READER_FIELD_MISSING_DEFAULT_VALUE" in body["message"]
        assert "oldSchemaVersion: 1" in body["message"]

    def test_answers_have_confluents_content_type(self, ask):
        ask.get("/subjects")
        assert ask.headers["content-type"] == "application/vnd.schemaregistry.v1+json"
        ask.get("/subjects", headers={"Accept": "application/json"})
        assert ask.headers["content-type"] == "application/json"

    def test_another_kind_cannot_follow(self, ask):
        ask.register("s", V1)
        assert ask.register("s", {"type": "object"}, "JSON") == (409, 409)

    def test_a_subject_may_have_any_name(self, ask):
        for name in ("a/b", "päth", "with space", "a%2Fb"):
            assert isinstance(ask.register(name, V1), int)
        assert set(ask.get("/subjects")) == {"a/b", "päth", "with space", "a%2Fb"}


class TestLevels:
    def test_each_level_allows_what_it_says(self, ask):
        added = record("R", ("a", "int"), ("b", "int"))
        cases = {
            "NONE": [(added, True), (record("Other"), True)],
            "BACKWARD": [(record("R"), True), (added, False)],
            "FORWARD": [(added, True), (record("R"), False)],
            "FULL": [(added, False), (record("R"), False), (record("R", ("a", "int")), True)],
        }
        for level, asked in cases.items():
            subject = f"of-{level}"
            ask.register(subject, record("R", ("a", "int")))
            assert ask.put(f"/config/{subject}", {"compatibility": level}) == {"compatibility": level}
            for schema, good in asked:
                path = f"/compatibility/subjects/{subject}/versions/latest?verbose=true"
                answer = ask.post(path, {"schema": json.dumps(schema)})
                assert answer["is_compatible"] is good, (level, schema)
                assert bool(answer["messages"]) is not good

    def test_transitive_levels_look_at_all_versions(self, ask):
        def field(kind):
            return json.dumps(record("R", ("a", kind)))

        ask.put("/config", {"compatibility": "NONE"})
        ask.register("s", field("string"))
        ask.register("s", field("int"))
        for level, good in (("BACKWARD", True), ("BACKWARD_TRANSITIVE", False)):
            ask.put("/config/s", {"compatibility": level})
            assert ask.post("/compatibility/subjects/s/versions", {"schema": field("long")}) == {"is_compatible": good}
        assert ask.post("/compatibility/subjects/s/versions/1", {"schema": field("bytes")}) == {"is_compatible": True}
        assert refused(ask.post("/compatibility/subjects/s/versions/9", {"schema": field("int")})) == (404, 40402)

    def test_config_is_inherited_set_and_dropped(self, ask):
        assert ask.get("/config") == {"compatibilityLevel": "BACKWARD"}
        assert refused(ask.get("/config/s")) == (404, 40408)
        assert ask.get("/config/s?defaultToGlobal=true") == {"compatibilityLevel": "BACKWARD"}
        assert ask.put("/config", {"compatibility": "full"}) == {"compatibility": "FULL"}
        ask.put("/config/s", {"compatibility": "NONE", "normalize": True})
        assert ask.get("/config/s") == {"compatibilityLevel": "NONE", "normalize": True}
        assert ask.delete("/config/s") == {"compatibilityLevel": "NONE", "normalize": True}
        assert ask.get("/config/s?defaultToGlobal=true") == {"compatibilityLevel": "FULL"}
        assert ask.delete("/config") == {"compatibilityLevel": "FULL"}
        assert ask.get("/config") == {"compatibilityLevel": "BACKWARD"}
        assert refused(ask.put("/config", {"compatibility": "SIDEWARD"})) == (422, 42203)
        assert refused(ask.put("/config", {"compatibility": "FULL", "overrideRuleSet": {}})) == (422, 42205)


class TestModes:
    def test_a_registry_that_is_read_only_takes_nothing(self, ask):
        ask.register("s", V1)
        assert ask.get("/mode") == {"mode": "READWRITE"}
        assert ask.put("/mode", {"mode": "READONLY"}) == {"mode": "READONLY"}
        assert ask.register("s", V2) == (422, 42205)
        assert refused(ask.delete("/subjects/s")) == (422, 42205)
        assert ask.register("s", V1) == (422, 42205)
        assert ask.put("/mode/s", {"mode": "READWRITE"}) == {"mode": "READWRITE"}
        assert ask.register("s", V2) == 2
        assert ask.delete("/mode/s") == {"mode": "READWRITE"}
        assert refused(ask.get("/mode/s")) == (404, 40409)
        assert ask.get("/mode/s?defaultToGlobal=true") == {"mode": "READONLY"}
        assert refused(ask.put("/mode", {"mode": "SLEEPING"})) == (422, 42204)

    def test_schemas_are_brought_with_their_ids(self, ask):
        assert ask.register("s", V1, id=50) == (422, 42205)
        ask.put("/mode", {"mode": "IMPORT"})
        assert ask.register("s", V1, id=50, version=3) == 50
        assert ask.register("s", BROKEN, id=60, version=4) == 60
        assert ask.register("s", V2, id=50, version=5) == (422, 42207)
        assert ask.register("t", V2) == (422, 42205)
        ask.put("/mode", {"mode": "READWRITE"})
        assert ask.get("/subjects/s/versions") == [3, 4]
        assert ask.register("t", V2) == 61
        assert refused(ask.put("/mode", {"mode": "IMPORT"})) == (422, 42205)
        assert ask.put("/mode?force=true", {"mode": "IMPORT"}) == {"mode": "IMPORT"}


class TestDeleting:
    def test_a_deleted_version_is_hidden_and_still_read_by_its_id(self, ask):
        ask.register("s", V1)
        ask.register("s", V2)
        assert ask.delete("/subjects/s/versions/1") == 1
        assert ask.get("/subjects/s/versions") == [2]
        assert ask.get("/subjects/s/versions?deleted=true") == [1, 2]
        assert refused(ask.get("/subjects/s/versions/1")) == (404, 40402)
        assert ask.get("/subjects/s/versions/1?deleted=true")["deleted"] is True
        assert json.loads(ask.get("/schemas/ids/1")["schema"]) == V1
        assert refused(ask.delete("/subjects/s/versions/1")) == (404, 40406)
        assert refused(ask.delete("/subjects/s/versions/2?permanent=true")) == (404, 40407)
        assert ask.delete("/subjects/s/versions/1?permanent=true") == 1
        assert refused(ask.get("/schemas/ids/1")) == (404, 40403)
        assert ask.register("s", {**V1, "doc": "another"}) == 3
        assert ask.get("/subjects/s/versions") == [2, 3]

    def test_a_subject_goes_in_two_steps(self, ask):
        ask.register("s", V1)
        ask.register("s", V2)
        ask.put("/config/s", {"compatibility": "NONE"})
        assert refused(ask.delete("/subjects/s?permanent=true")) == (404, 40405)
        assert ask.delete("/subjects/s") == [1, 2]
        assert refused(ask.get("/config/s")) == (404, 40408)
        assert ask.get("/subjects") == []
        assert ask.get("/subjects?deleted=true") == ["s"]
        assert refused(ask.delete("/subjects/s")) == (404, 40404)
        assert ask.delete("/subjects/s?permanent=true") == [1, 2]
        assert ask.get("/subjects?deleted=true") == []
        assert ask.register("s", V1) == 3  # ids are never given twice

    def test_what_was_deleted_can_be_registered_again(self, ask):
        ask.register("s", V1)
        ask.delete("/subjects/s")
        assert ask.register("s", V1) == 1
        assert ask.get("/subjects/s/versions") == [2]


ADDRESS = record("Address", ("street", "string"))
PERSON = record("Person", ("home", "Address"))
TO_ADDRESS = {"name": "Address", "subject": "address", "version": 1}


class TestReferences:
    def test_a_schema_is_read_with_what_it_refers_to(self, ask):
        assert ask.register("person", PERSON) == (422, 42201)
        assert ask.register("person", PERSON, references=[TO_ADDRESS]) == (422, 42201)
        ask.register("address", ADDRESS)
        assert ask.register("person", PERSON, references=[TO_ADDRESS]) == 2
        assert ask.get("/schemas/ids/2")["references"] == [TO_ADDRESS]
        assert ask.get("/subjects/address/versions/1/referencedby") == [2]

    def test_what_is_referred_to_cannot_be_deleted(self, ask):
        ask.register("address", ADDRESS)
        ask.register("person", PERSON, references=[TO_ADDRESS])
        assert refused(ask.delete("/subjects/address/versions/1")) == (422, 42206)
        assert refused(ask.delete("/subjects/address")) == (422, 42206)
        ask.delete("/subjects/person")
        assert ask.delete("/subjects/address") == [1]
        assert refused(ask.delete("/subjects/address?permanent=true")) == (422, 42206)
        ask.delete("/subjects/person?permanent=true")
        assert ask.delete("/subjects/address?permanent=true") == [1]

    def test_the_latest_version_is_pinned(self, ask):
        ask.register("address", ADDRESS)
        ask.register("person", PERSON, references=[{**TO_ADDRESS, "version": -1}])
        assert ask.get("/subjects/person/versions/1")["references"] == [TO_ADDRESS]

    @pytest.mark.parametrize("kind", ["JSON", "PROTOBUF"])
    def test_other_kinds_refer_too(self, ask, kind):
        inner, outer, name = {
            "JSON": (
                {"type": "object", "properties": {"street": {"type": "string"}}},
                {"type": "object", "properties": {"home": {"$ref": "address.json"}}},
                "address.json",
            ),
            "PROTOBUF": (
                'syntax = "proto3"; message Address { string street = 1; }',
                'syntax = "proto3"; import "a/address.proto"; message Person { Address home = 1; }',
                "a/address.proto",
            ),
        }[kind]
        ask.register("address", inner, kind)
        assert ask.register("person", outer, kind) == (422, 42201)
        reference = {"name": name, "subject": "address", "version": 1}
        assert ask.register("person", outer, kind, [reference]) == 2
        assert ask.register("person", outer, kind, [reference]) == 2


class TestContexts:
    def test_a_context_is_a_world_of_its_own(self, ask):
        assert ask.register("s", V1) == 1
        assert ask.register(":.west:s", V2) == 1
        assert ask.get("/contexts") == [".", ".west"]
        assert ask.get("/subjects") == [":.west:s", "s"]
        assert ask.get("/subjects?subjectPrefix=:.west:") == [":.west:s"]
        assert ask.get("/contexts/:.west:/subjects") == [":.west:s"]
        assert json.loads(ask.get("/schemas/ids/1")["schema"]) == V1
        assert json.loads(ask.get("/schemas/ids/1?subject=:.west:s")["schema"]) == V2
        assert json.loads(ask.get("/contexts/.west/schemas/ids/1")["schema"]) == V2
        assert ask.get("/contexts/.west/subjects/s/versions") == [1]
        ask.put("/config/:.west:", {"compatibility": "NONE"})
        assert ask.get("/config/:.west:s?defaultToGlobal=true") == {"compatibilityLevel": "NONE"}
        assert ask.get("/config/s?defaultToGlobal=true") == {"compatibilityLevel": "BACKWARD"}


class TestExtras:
    def test_metadata_and_rules_are_kept(self, ask):
        metadata = {"properties": {"owner": "me"}}
        rules = {"domainRules": [{"name": "r", "kind": "TRANSFORM", "type": "ENCRYPT", "mode": "WRITEREAD"}]}
        plain = ask.register("s", V1)
        assert ask.register("s", V1, metadata=metadata, ruleSet=rules) == plain + 1
        latest = ask.get("/subjects/s/versions/latest")
        assert latest["metadata"] == metadata
        assert latest["ruleSet"] == rules
        assert ask.get("/subjects/s/metadata?key=owner&value=me")["version"] == 2
        assert refused(ask.get("/subjects/s/metadata?key=owner&value=you")) == (404, 40401)

    def test_lists_come_in_pages(self, ask):
        for name in "abcde":
            ask.register(name, V1)
        assert ask.get("/subjects?offset=1&limit=2") == ["b", "c"]
        assert [each["subject"] for each in ask.get("/schemas?latestOnly=true&offset=3")] == ["d", "e"]
        assert ask.get("/schemas?subjectPrefix=a")[0]["id"] == 1

    def test_who_it_is(self, ask):
        assert ask.get("/v1/metadata/id")["scope"]["clusters"]["kafka-cluster"] == ask.engine.cluster.id
        assert ask.get("/v1/metadata/version")["version"].startswith("runnel ")
        assert ask.get("/schemas/ids/1?fetchMaxId=true")[0] == 404


def test_the_openapi_document_names_every_path_and_only_those(nodes):
    document = Asker(nodes.addresses[0]).get("/schemas/openapi.json")
    table = Paths(None).table()
    assert {(method.upper(), path) for path, item in document["paths"].items() for method in item} == {
        (method, pattern) for method, pattern, _, _ in table
    }
    assert _QUERIES.keys() <= {(method, pattern) for method, pattern, _, _ in table}
    import jsonschema_rs

    for schema in document["components"]["schemas"].values():
        jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})


def deep(levels):
    return '{"type":"array","items":' * levels + '"int"' + "}" * levels


class TestBadInput:
    @pytest.mark.parametrize(
        ("kind", "text"),
        [
            ("AVRO", "no json"),
            ("AVRO", '{"type":"record"}'),
            ("AVRO", '{"type":"record","name":"R","fields":[{"name":"a","type":"Unknown"}]}'),
            ("AVRO", '{"type":"record","name":"R","fields":[{"name":"a","type":"int","default":"x"}]}'),
            ("AVRO", '{"type":"record","name":"1","fields":[]}'),
            ("AVRO", '["int","int"]'),
            ("AVRO", "NaN"),
            ("AVRO", deep(200)),
            ("AVRO", deep(20_000)),
            ("JSON", "[]"),
            ("JSON", '{"type":"nothing"}'),
            ("JSON", '{"$ref":"elsewhere.json"}'),
            ("JSON", '{"$ref":"#/definitions/none"}'),
            ("JSON", '{"not":' * 5000 + "{}" + "}" * 5000),
            ("PROTOBUF", "message {"),
            ("PROTOBUF", 'syntax = "proto3"; import "none.proto"; message M {}'),
            ("PROTOBUF", "message M {" * 5000 + "}" * 5000),
            ("THRIFT", "struct S {}"),
            ("AVRO", ""),
        ],
    )
    def test_a_schema_that_is_none_is_refused_and_nothing_else_happens(self, nodes, kind, text):
        asker = Asker(nodes.addresses[0])
        assert asker.register("bad", text, kind) == (422, 42201)
        assert "bad" not in asker.get("/subjects")

    def test_what_is_too_large_is_refused(self, nodes):
        asker = Asker(nodes.addresses[0])
        assert asker.register("large", '{"type":"string","doc":"' + "x" * TEXT_BYTES_MAX + '"}') == (422, 42209)
        assert asker.register("wide", "[" + '"null",' * 60_000 + '"int"]') == (422, 42201)

    @pytest.mark.parametrize("body", [b"", b"[]", b"{", b'"x"', b"\xff", b"[" * 100_000, b'{"schema": 5}'])
    def test_a_body_that_is_no_request_is_a_400(self, nodes, body):
        assert refused(Asker(nodes.addresses[0]).post("/subjects/s/versions", body)) == (400, 400)

    def test_web_pages_cannot_register(self, nodes):
        answer = Asker(nodes.addresses[0]).post(
            "/subjects/s/versions", b'{"schema":"\\"int\\""}', headers={"Content-Type": "text/plain"}
        )
        assert refused(answer) == (415, 415)

    @pytest.mark.parametrize("reference", [{}, {"name": "a"}, {"name": "a", "subject": "b", "version": "1"}, 5])
    def test_a_reference_that_is_none_is_refused(self, nodes, reference):
        status, _ = Asker(nodes.addresses[0]).register("bad", V1, references=[reference])
        assert status == 422

    def test_a_ring_of_records_is_read_and_compared(self, nodes):
        asker = Asker(nodes.addresses[0])
        ring = record("Node", ("next", ["null", "Node"]), ("value", "int"))
        wider = record("Node", ("next", ["null", "Node"]), ("value", "long"))
        asker.register("ring", ring)
        assert isinstance(asker.register("ring", wider), int)
        assert asker.register("ring", ring) != (409, 409)

    def test_references_of_json_that_lead_only_to_each_other_end(self, nodes):
        asker = Asker(nodes.addresses[0])
        ring = {
            "definitions": {"a": {"$ref": "#/definitions/b"}, "b": {"$ref": "#/definitions/a"}},
            "$ref": "#/definitions/a",
        }
        asker.register("json-ring", ring, "JSON")
        assert asker.register("json-ring", {**ring, "title": "again"}, "JSON") == (422, 42201)


class TestTwoNodes:
    def test_what_one_was_told_the_other_knows_at_once(self, nodes):
        one, other = map(Asker, nodes.addresses)
        made = one.register("shared", V1)
        assert json.loads(other.get(f"/schemas/ids/{made}")["schema"]) == V1
        assert other.get("/subjects/shared/versions") == [1]
        one.delete("/subjects/shared")
        assert refused(other.get("/subjects/shared/versions")) == (404, 40401)

    def test_ids_are_unique_whoever_registers_at_once(self, nodes):
        askers = list(map(Asker, nodes.addresses))
        jobs = [(number % 2, f"subject-{number % 7}", f"R{number % 20}") for number in range(80)]
        askers[0].put("/config", {"compatibility": "NONE"})
        with ThreadPoolExecutor(8) as pool:
            ids = list(pool.map(lambda job: askers[job[0]].register(job[1], record(job[2])), jobs))
        askers[0].delete("/config")
        by_schema = {}
        for (_, _, name), made in zip(jobs, ids, strict=True):
            by_schema.setdefault(name, set()).add(made)
        assert all(len(made) == 1 for made in by_schema.values())
        assert len(set(ids)) == 20
        for number in range(7):
            wanted = {name for _, subject, name in jobs if subject == f"subject-{number}"}
            assert askers[1].get(f"/subjects/subject-{number}/versions") == list(range(1, len(wanted) + 1))

    def test_two_that_do_not_fit_together_are_not_both_taken(self, nodes):
        askers = list(map(Asker, nodes.addresses))
        for number in range(10):
            subject = f"race-{number}"
            askers[0].register(subject, record("R"))
            rivals = [
                {**record("R"), "fields": [{"name": "a", "type": kind, "default": default}]}
                for kind, default in (("int", 1), ("string", ""))
            ]
            with ThreadPoolExecutor(2) as pool:
                results = list(
                    pool.map(lambda each, s=subject: each[0].register(s, each[1]), zip(askers, rivals, strict=True))
                )
            assert sorted(isinstance(result, int) for result in results) == [False, True]
            assert (409, 409) in results
