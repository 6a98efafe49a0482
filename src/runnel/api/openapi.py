"""What the HTTP door offers, as OpenAPI 3.1: vital signs, streams, topics, subscriptions. Served at `/v1/openapi.json`.

The schema registry has a document of its own (`/schemas/openapi.json`). `make schemathesis` holds both against a node.
"""

import json
from typing import Any

from runnel.api.answer import Answer
from runnel.api.messages import Request, Response
from runnel.api.routes import Found, Routes
from runnel.api.streams import words
from runnel.version import __version__

PATH = "/v1/openapi.json"

PROBLEM = {
    "description": "What is wrong, as RFC 9457 says it",
    "content": {
        "application/problem+json": {
            "schema": {
                "type": "object",
                "required": ["title", "status"],
                "properties": {
                    "type": {"type": "string"},
                    "title": {"type": "string"},
                    "status": {"type": "integer"},
                    "detail": {"type": "string"},
                },
            }
        }
    },
}
TROUBLE = {
    "description": "What is wrong with the request, or with the subscription",
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "required": ["error"],
                "properties": {
                    "error": {
                        "type": "object",
                        "required": ["code", "message"],
                        "properties": {"code": {"type": "string"}, "message": {"type": "string"}},
                    }
                },
            }
        }
    },
}
STREAM_PATH = {"name": "path", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
SUBSCRIPTION_ID = {"name": "id", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
LIVE = {"name": "live", "in": "query", "schema": {"enum": ["long-poll", "sse"]}}
OFFSET = {"name": "offset", "in": "query", "schema": {"type": "string"}}


def document() -> dict[str, Any]:
    """The whole of it."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Runnel",
            "version": __version__,
            "description": "Durable Streams 1.0 and what is around it; see docs/http.md.",
        },
        "paths": {**_vitals(), **_streams(), **_topics(), **_subscriptions()},
    }


def _vitals() -> dict[str, Any]:
    health = {"content": {"text/plain": {"schema": {"type": "string"}}, "application/json": {"schema": {}}}}
    answers = {"200": {"description": "Yes", **health}, "503": {"description": "No, and why not", **health}}
    return {
        "/healthz": {"get": {"summary": "Is the node alive?", "responses": answers}},
        "/readyz": {"get": {"summary": "May clients be sent here?", "responses": answers}},
        "/metrics": {
            "get": {
                "summary": "For Prometheus",
                "responses": {"200": {"description": "Metrics", "content": {"text/plain": {}}}},
            }
        },
    }


def _streams() -> dict[str, Any]:
    return {
        "/v1/stream/{path}": {
            "parameters": [STREAM_PATH],
            "put": {
                "summary": "Make a stream, perhaps with its first bytes, or as a fork of another",
                "parameters": [
                    *_headers("Content-Type", "Stream-TTL", "Stream-Expires-At", "Stream-Closed"),
                    *_headers("Stream-Forked-From", "Stream-Fork-Offset", "Stream-Fork-Sub-Offset"),
                ],
                "requestBody": {"content": {"*/*": {}}},
                "responses": _answers("200 It is there as wanted", "201 It is made", "400", "404", "409", "410"),
            },
            "post": {
                "summary": "Append, close, or both",
                "parameters": [
                    *_headers("Content-Type", "Stream-Seq", "Stream-Closed"),
                    *_headers("Producer-Id", "Producer-Epoch", "Producer-Seq"),
                ],
                "requestBody": {"content": {"*/*": {}}},
                "responses": _answers(
                    "200 Appended by a producer", "204 Appended, or done before", "400", "403", "404", "409", "410",
                    "412",
                ),
            },
            "get": {
                "summary": "Read from an offset, and go on at the tail",
                "parameters": [OFFSET, LIVE, {"name": "cursor", "in": "query", "schema": {"type": "string"}}],
                "responses": _answers(
                    "200 What is there", "204 Nothing came", "304 What you have is all", "400", "404", "410"
                ),
            },
            "head": {"summary": "Type, tail, life", "responses": _answers("200 It is there", "400", "404", "410")},
            "delete": {"summary": "Remove it", "responses": _answers("204 It is gone", "400", "404", "410")},
        }
    }  # fmt: skip


def _topics() -> dict[str, Any]:
    name = {"name": "topic", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
    partition = {"name": "partition", "in": "path", "required": True, "schema": {"type": "integer", "minimum": 0}}
    view = {"name": "format", "in": "query", "schema": {"enum": ["json", "raw"]}}
    return {
        "/v1/topic/{topic}/{partition}": {
            "get": {
                "summary": "Watch a partition of any topic",
                "parameters": [name, partition, OFFSET, LIVE, view],
                "responses": _answers("200 Records", "204 Nothing came", "400", "404", "410"),
            }
        }
    }


def _subscriptions() -> dict[str, Any]:
    base = "/v1/stream/__ds/subscriptions/{id}"
    wanted = {
        "type": "object",
        "required": ["type"],
        "properties": {
            "type": {"enum": ["webhook", "pull-wake"]},
            "pattern": {"type": "string"},
            "streams": {"type": "array", "items": {"type": "string"}},
            "webhook": {"type": "object", "properties": {"url": {"type": "string"}}},
            "wake_stream": {"type": "string"},
            "lease_ttl_ms": {"type": "integer", "minimum": 1000, "maximum": 600_000},
            "description": {"type": "string"},
        },
    }
    acks = {
        "type": "object",
        "properties": {
            "wake_id": {"type": "string"},
            "generation": {"type": "integer"},
            "acks": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"stream": {"type": "string"}, "offset": {"type": "string"}},
                },
            },
            "done": {"type": "boolean"},
        },
    }
    streams = {"type": "object", "properties": {"streams": wanted["properties"]["streams"]}}  # type: ignore[index]
    worker = {"type": "object", "properties": {"worker": {"type": "string"}}}
    path = {"name": "stream", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
    return {
        base: {
            "parameters": [SUBSCRIPTION_ID],
            "put": _work(
                "Make it, or find it as it is wanted", wanted, "200 It is there", "201 It is made", "400", "409"
            ),
            "get": _work("How it stands", None, "200 It", "400", "404"),
            "delete": _work("Remove it", None, "204 It is gone", "400"),
        },
        f"{base}/streams": {
            "parameters": [SUBSCRIPTION_ID],
            "post": _work("Name streams to it", streams, "204 Done", "400", "404"),
        },
        f"{base}/streams/{{stream}}": {
            "parameters": [SUBSCRIPTION_ID, path],
            "delete": _work("Name a stream no longer", None, "204 Done", "400", "404"),
        },
        f"{base}/claim": {
            "parameters": [SUBSCRIPTION_ID],
            "post": _work("Take a wake to work on", worker, "200 It is yours", "400", "404", "409"),
        },
        **{
            f"{base}/{action}": {
                "parameters": [SUBSCRIPTION_ID, *_headers("Authorization")],
                "post": _work(f"{action}: what is done", acks, *good, "400", "401", "404", "409"),
            }
            for action, good in (("ack", ["200 Noted"]), ("callback", ["200 Noted"]), ("release", ["204 Given back"]))
        },
        "/v1/stream/__ds/jwks.json": {
            "get": {
                "summary": "The keys by which webhooks are signed",
                "responses": {"200": {"description": "Keys", "content": {"application/jwk-set+json": {}}}},
            }
        },
    }


def _headers(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "in": "header", "schema": {"type": "string"}} for name in names]


def _answers(*told: str) -> dict[str, Any]:
    """`200 words` for what is fine; a bare number is a problem."""
    responses: dict[str, Any] = {"503": PROBLEM}
    for each in told:
        status, _, description = each.partition(" ")
        responses[status] = {"description": description} if description else PROBLEM
    return responses


def _work(summary: str, body: dict[str, Any] | None, *told: str) -> dict[str, Any]:
    responses: dict[str, Any] = {"503": TROUBLE}
    for each in told:
        status, _, description = each.partition(" ")
        good = {"description": description}
        if status != "204":
            good["content"] = {"application/json": {"schema": {"type": "object"}}}  # type: ignore[assignment]
        responses[status] = good if description else TROUBLE
    work: dict[str, Any] = {"summary": summary, "responses": responses}
    if body is not None:
        work["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    return work


def add_openapi(routes: Routes) -> None:
    """Add the route."""
    body = json.dumps(document()).encode()
    headers = {**words.BROWSER, "content-type": "application/json", "cache-control": "no-cache"}

    def tell(_request: Request, respond: Answer, _: Found) -> None:
        respond(Response(200, headers, body))

    routes.add("GET", PATH, tell)
