"""`/v1/stream/__ds/…`: subscriptions, and the keys by which webhooks are signed."""

import json
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

from runnel.api.answer import Answer
from runnel.api.messages import Request, Response
from runnel.api.routes import Found, Routes
from runnel.api.streams import words
from runnel.api.subscriptions import asks
from runnel.api.subscriptions.asks import UrlRejected
from runnel.api.subscriptions.desk import Desk, NothingToDo, OffsetInvalid
from runnel.api.subscriptions.signing import TokenExpired, TokenInvalid
from runnel.errors import AlreadyThere, Fenced, NotThere, Refused, RunnelError, Unavailable
from runnel.metadata.subscriptions import Subscription
from runnel.metadata.updates.subscriptions import AlreadyClaimed
from runnel.world.telemetry import get_log

log = get_log("subscriptions")

ROOT = "/v1/stream/__ds"
BASE = ROOT + "/subscriptions/{id}"
NAME_CHARACTERS_MAX = 256
# The first kind that fits counts, so children stand before their parents.
CODES: tuple[tuple[type[RunnelError], int, str], ...] = (
    (UrlRejected, 400, "WEBHOOK_URL_REJECTED"),
    (TokenInvalid, 401, "TOKEN_INVALID"),
    (TokenExpired, 401, "TOKEN_EXPIRED"),
    (AlreadyClaimed, 409, "ALREADY_CLAIMED"),
    (NothingToDo, 409, "NO_PENDING_WORK"),
    (OffsetInvalid, 409, "INVALID_OFFSET"),
    (NotThere, 404, "SUBSCRIPTION_NOT_FOUND"),
    (AlreadyThere, 409, "SUBSCRIPTION_ALREADY_EXISTS"),
    (Fenced, 409, "FENCED"),
    (Refused, 400, "INVALID_REQUEST"),
    (Unavailable, 503, "UNAVAILABLE"),
)

Work = Callable[[Request, str, Found], Coroutine[Any, Any, Response]]


def told(status: int, document: dict[str, Any], content_type: str = "application/json") -> Response:
    headers = {**words.BROWSER, "content-type": content_type, "cache-control": "no-store"}
    return Response(status, headers, json.dumps(document).encode())


def nothing() -> Response:
    return Response(204, words.BROWSER)


def failed(error: BaseException) -> Response:
    for kind, status, code in CODES:
        if isinstance(error, kind):
            more = {}
            if isinstance(error, AlreadyClaimed):
                more = {"current_holder": error.holder, "generation": error.generation}
            return told(status, {"error": {"code": code, "message": str(error), **more}})
    return told(500, {"error": {"code": "INTERNAL", "message": "something went wrong inside the server"}})


class SubscriptionRoutes:
    """The handlers."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._tasks = desk.world.tasks

    def add_to(self, routes: Routes) -> None:
        for method, pattern, work in (
            ("GET", ROOT + "/jwks.json", self.keys),
            ("PUT", BASE, self.put),
            ("GET", BASE, self.get),
            ("DELETE", BASE, self.delete),
            ("POST", BASE + "/streams", self.link),
            ("DELETE", BASE + "/streams/{path…}", self.unlink),
            ("POST", BASE + "/callback", self.ack),
            ("POST", BASE + "/claim", self.claim),
            ("POST", BASE + "/ack", self.ack),
            ("POST", BASE + "/release", self.release),
        ):
            routes.add(method, pattern, self._handle(work))

    def _handle(self, work: Work) -> Callable[[Request, Answer, Found], None]:
        async def run(request: Request, respond: Answer, found: Found) -> None:
            try:
                response = await work(request, _name(found.get("id", "")), found)
            except Exception as error:  # noqa: BLE001  whatever it was, the client gets an answer and the node lives on
                if not isinstance(error, RunnelError):
                    log.crash("request_failed", error, method=request.method, path=request.raw_path)
                response = failed(error)
            respond(response)

        def handle(request: Request, respond: Answer, found: Found) -> None:
            self._tasks.spawn(run(request, respond, found), name="http subscription")

        return handle

    async def keys(self, request: Request, name: str, found: Found) -> Response:
        del request, name, found
        signer = await self._desk.signer()
        response = told(200, signer.jwks, "application/jwk-set+json")
        return Response(200, {**response.headers, "cache-control": "public, max-age=300"}, response.body)

    async def put(self, request: Request, name: str, found: Found) -> Response:
        del found
        subscription, new = await self._desk.create(name, asks.wanted(request.body, local=self._desk.local))
        return told(201 if new else 200, await self._described(subscription))

    async def get(self, request: Request, name: str, found: Found) -> Response:
        del request, found
        await self._desk.see_all()
        return told(200, await self._described(await self._desk.find(name)))

    async def delete(self, request: Request, name: str, found: Found) -> Response:
        del request, found
        await self._desk.delete(name)
        return nothing()

    async def link(self, request: Request, name: str, found: Found) -> Response:
        del found
        paths = asks.paths(asks.document(request.body).get("streams"))
        if not paths:
            raise Refused("streams is a list of at least one path")
        await self._desk.link(name, paths)
        return nothing()

    async def unlink(self, request: Request, name: str, found: Found) -> Response:
        del request
        await self._desk.unlink(name, found["path"].strip("/"))
        return nothing()

    async def claim(self, request: Request, name: str, found: Found) -> Response:
        del found
        worker = asks.document(request.body).get("worker")
        if not isinstance(worker, str) or not 0 < len(worker) <= NAME_CHARACTERS_MAX:
            raise Refused(f"worker is some text of at most {NAME_CHARACTERS_MAX} characters")
        claimed = await self._desk.claim(name, worker)
        return told(200, {
            "wake_id": claimed.wake,
            "generation": claimed.generation,
            "token": claimed.token,
            "streams": self._desk.told(claimed.subscription),
            "lease_ttl_ms": claimed.subscription.wanted.lease_ms,
        })  # fmt: skip

    async def ack(self, request: Request, name: str, found: Found) -> Response:
        del found
        again = await self._desk.ack(name, _token(request), asks.document(request.body))
        return told(200, {"ok": True, "next_wake": again})

    async def release(self, request: Request, name: str, found: Found) -> Response:
        del found
        await self._desk.ack(name, _token(request), asks.document(request.body), release=True)
        return nothing()

    async def _described(self, subscription: Subscription) -> dict[str, Any]:
        wanted = subscription.wanted
        described: dict[str, Any] = {
            "id": subscription.id,
            "subscription_id": subscription.id,
            "type": wanted.kind,
            "streams": [
                {name: row[name] for name in ("path", "link_type", "acked_offset")}
                for row in self._desk.told(subscription)
            ],
            "lease_ttl_ms": wanted.lease_ms,
            "created_at": datetime.fromtimestamp(subscription.born_ms / 1000, UTC).isoformat(),
            "status": "failed" if self._desk.failures.get(subscription.id) else "active",
        }
        more = {"pattern": wanted.pattern, "wake_stream": wanted.wake_stream, "description": wanted.description}
        described |= {key: value for key, value in more.items() if value is not None}
        if wanted.webhook is not None:
            signer = await self._desk.signer()
            jwks = f"{self._desk.base}{ROOT}/jwks.json"
            signing = {"alg": "ed25519", "kid": signer.key_id, "jwks_url": jwks}
            described["webhook"] = {"url": wanted.webhook, "signing": signing}
        return described


def _name(text: str) -> str:
    if len(text) > NAME_CHARACTERS_MAX or not text.isprintable():
        raise Refused("that is no name of a subscription")
    return text


def _token(request: Request) -> str:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise TokenInvalid("send the token: Authorization: Bearer ...")
    return token
