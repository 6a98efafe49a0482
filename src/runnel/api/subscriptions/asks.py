"""What a request to the subscription API asks for, validated.

Where a webhook may live: https anywhere but at private addresses; http only at this machine, for development. What a
name of the net resolves to is looked at again when it is called (post.py).
"""

import ipaddress
import json
from typing import Any
from urllib.parse import urlsplit

from runnel.errors import Refused
from runnel.metadata.subscriptions import Wanted

LEASE_MS = 30_000
LEASE_MS_MIN = 1_000
LEASE_MS_MAX = 600_000
STREAMS_MAX = 10_000
TEXT_CHARACTERS_MAX = 2_048


class UrlRejected(Refused):
    """A webhook may not live there."""


def document(body: bytes) -> dict[str, Any]:
    """A body that must be a JSON object; nothing is an empty one."""
    try:
        found = json.loads(body.decode()) if body else {}
        json.dumps(found, ensure_ascii=False).encode()  # half a surrogate pair is JSON, but no text
    except (ValueError, RecursionError):
        raise Refused("the body is not JSON") from None
    if not isinstance(found, dict):
        raise Refused("the body is not a JSON object")
    return found


def wanted(body: bytes, *, local: bool) -> Wanted:
    """A subscription as it is asked for. `local` allows webhooks on this machine."""
    asked = document(body)
    kind = asked.get("type")
    if kind not in {"webhook", "pull-wake"}:
        raise Refused("type is neither 'webhook' nor 'pull-wake'")
    pattern = _text(asked, "pattern")
    streams = paths(asked.get("streams") or [])
    if pattern is None and not streams:
        raise Refused("name streams, a pattern, or both")
    lease = asked.get("lease_ttl_ms", LEASE_MS)
    if type(lease) is not int or not LEASE_MS_MIN <= lease <= LEASE_MS_MAX:
        raise Refused(f"lease_ttl_ms is a whole number from {LEASE_MS_MIN} to {LEASE_MS_MAX}")
    url = wake_stream = None
    if kind == "webhook":
        webhook = asked.get("webhook")
        url = _text(webhook, "url") if isinstance(webhook, dict) else None
        if url is None:
            raise Refused("a webhook subscription names webhook.url")
        check_url(url, local=local)
    else:
        wake_stream = _text(asked, "wake_stream")
        if wake_stream is None:
            raise Refused("a pull-wake subscription names wake_stream")
    return Wanted(
        kind=kind,
        pattern=pattern and pattern.strip("/"),
        streams=sorted(set(streams)),
        webhook=url,
        wake_stream=wake_stream and wake_stream.strip("/"),
        lease_ms=lease,
        description=_text(asked, "description"),
    )


def paths(given: Any) -> list[str]:
    """Paths of streams, without slashes around them."""
    if not isinstance(given, list) or len(given) > STREAMS_MAX:
        raise Refused(f"streams is a list of at most {STREAMS_MAX} paths")
    if any(not isinstance(path, str) or not path.strip("/") or len(path) > TEXT_CHARACTERS_MAX for path in given):
        raise Refused("a stream's path is some text")
    return [path.strip("/") for path in given]


def _text(asked: dict[str, Any], name: str) -> str | None:
    text = asked.get(name)
    if text is None or text == "":
        return None
    if not isinstance(text, str) or len(text) > TEXT_CHARACTERS_MAX:
        raise Refused(f"{name} is some text of at most {TEXT_CHARACTERS_MAX} characters")
    return text


def check_url(url: str, *, local: bool) -> None:
    try:
        parts = urlsplit(url)
        host, _ = (parts.hostname or "").lower(), parts.port
    except ValueError:
        raise UrlRejected("webhook.url is no address") from None
    if not host or not url.isprintable() or " " in url or parts.username is not None:
        raise UrlRejected("webhook.url is no address")
    if parts.scheme == "http":
        if not local or not is_this_machine(host):
            raise UrlRejected("http is allowed for this machine only, and where settings allow it: use https")
        return
    if parts.scheme != "https":
        raise UrlRejected("webhook.url must use https")
    if host == "localhost" or host.endswith(".localhost"):
        raise UrlRejected("a webhook on this machine uses http")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return
    if not is_public(address):
        raise UrlRejected("webhook.url leads to a private address")


def is_this_machine(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.IPv4Address(host).is_loopback
    except ValueError:
        return False


def is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Whether an address is one of the open net."""
    return address.is_global and not address.is_multicast
