"""RFC 9457: what went wrong, as JSON; and the one place where our five kinds of error become statuses.

    Refused      400, NotThere 404, AlreadyThere 409
    Fenced       409
    Unavailable  503 and Retry-After; Overloaded the same
    Uncertain    500: it may have happened; only a look, or the same producer sequence again, can tell
    Corrupt      500

A mistake of ours (any other exception) is a 500 that says nothing about itself: its story goes to the log.
"""

import json
from collections.abc import Mapping
from http import HTTPStatus

from runnel.api.messages import Response
from runnel.errors import AlreadyThere, Corrupt, Fenced, NotThere, Overloaded, Refused, Unavailable, Uncertain

RETRY_AFTER_SECONDS = "1"

# The first kind that fits counts, so children stand before their parents.
STATUSES: tuple[tuple[type[Exception], int], ...] = (
    (NotThere, 404),
    (AlreadyThere, 409),
    (Refused, 400),
    (Fenced, 409),
    (Overloaded, 503),
    (Unavailable, 503),
    (Uncertain, 500),
    (Corrupt, 500),
)


def problem(status: int, detail: str = "", headers: Mapping[str, str] | None = None, **more: object) -> Response:
    """An answer that says what is wrong. `more` are members of its own, as RFC 9457 allows."""
    try:
        title = HTTPStatus(status).phrase
    except ValueError:
        title = "Unknown"
    document: dict[str, object] = {"type": "about:blank", "title": title, "status": status}
    if detail:
        document["detail"] = detail
    document.update(more)
    fields = {"content-type": "application/problem+json", "cache-control": "no-store", **(headers or {})}
    if status == 503:
        fields.setdefault("retry-after", RETRY_AFTER_SECONDS)
    return Response(status, fields, json.dumps(document).encode())


def problem_of(error: BaseException) -> Response:
    """The answer to an error of any kind."""
    for kind, status in STATUSES:
        if isinstance(error, kind):
            return problem(status, str(error), kind=kind.__name__.lower())
    return problem(500, "something went wrong inside the server")
