"""What supervisors, load balancers and Prometheus ask of a node: `/healthz`, `/readyz`, `/metrics`.

The first two answer 200 or 503. In plain text, `ok` or one line per check that fails; as JSON for those who accept it.
"""

import json

from runnel.api.answer import Answer
from runnel.api.messages import Request, Response
from runnel.api.routes import Found, Routes
from runnel.world.telemetry.health import Health, Report
from runnel.world.telemetry.metrics import CONTENT_TYPE, Metrics


def add_vitals(routes: Routes, health: Health, metrics: Metrics) -> None:
    """Add the three routes."""

    def healthz(request: Request, respond: Answer, _: Found) -> None:
        respond(_told(request, health.alive()))

    def readyz(request: Request, respond: Answer, _: Found) -> None:
        respond(_told(request, health.ready()))

    def tell_metrics(_request: Request, respond: Answer, _: Found) -> None:
        respond(Response(200, {"content-type": CONTENT_TYPE}, metrics.render().encode()))

    routes.add("GET", "/healthz", healthz)
    routes.add("GET", "/readyz", readyz)
    routes.add("GET", "/metrics", tell_metrics)


def _told(request: Request, report: Report) -> Response:
    status = 200 if report.good else 503
    if "application/json" in request.headers.get("accept", ""):
        body = json.dumps({"ok": report.good, "checks": report.reasons}).encode()
        return Response(status, {"content-type": "application/json", "cache-control": "no-store"}, body)
    headers = {"content-type": "text/plain; charset=utf-8", "cache-control": "no-store"}
    return Response(status, headers, report.text().encode())
