"""The schema registry: the REST API that Confluent's serializers use, over schemas kept in the ledger.

    registry.py   what can be done: register, look up, compare, delete, set
    asks.py       what a request asks for, validated
    answers.py    what became of it, as JSON
    trouble.py    errors with Confluent's numbers
    routes.py     from paths to all of it
    openapi.py    the same for programs: an OpenAPI document made from the routes

Schemas are updates of the root shard (metadata/schemas.py), so every node knows all of them, ids are drawn where the
ledger orders things, and two nodes that register at once are simply one after the other. What a schema means is the
business of runnel.schemas. A node judges compatibility by what it has applied and proposes "this, if nothing has changed
since"; whoever comes second judges again.
"""
