"""Keys of the cluster, signatures of webhooks, tokens of wakes.

One seed of 32 bytes is drawn when it is first needed and written once into the object store, so that all nodes sign with
one key and know each other's tokens. From it come an Ed25519 key for webhooks and a secret for tokens.

    Webhook-Signature: t=<seconds>,kid=<key id>,ed25519=<signature of "<seconds>.<body>">
    token              <claims>.<HMAC-SHA256>, both base64url: subscription, generation, until when
"""

import hashlib
import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

from runnel.errors import AlreadyThere, NotThere, Refused
from runnel.model import ObjectName
from runnel.world.objects import ObjectStore
from runnel.world.world import World

SEED_NAME = ObjectName("keys/webhooks")
SEED_BYTES = 32
TOKEN_SECONDS = 3_600


class TokenInvalid(Refused):
    """No token of ours, or one of another subscription."""


class TokenExpired(Refused):
    """It was valid once."""


async def find_seed(objects: ObjectStore, world: World) -> bytes:
    """The cluster's seed; whoever comes first draws it."""
    while True:
        try:
            return bytes(await objects.read(SEED_NAME))
        except NotThere:
            pass
        try:
            await objects.put_new(SEED_NAME, world.chance.randbytes(SEED_BYTES))
        except AlreadyThere:
            continue


class Signer:
    """Signs and checks. Needs the extra `webhooks`."""

    def __init__(self, seed: bytes, world: World) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415  only who has webhooks pays
            Ed25519PrivateKey,
        )

        self._clock = world.clock
        self._chance = world.chance
        self._secret = hmac.digest(seed, b"tokens", "sha256")
        self._key = Ed25519PrivateKey.from_private_bytes(hmac.digest(seed, b"webhooks", "sha256"))
        public = _text(self._key.public_key().public_bytes_raw())
        thumbprint = json.dumps({"crv": "Ed25519", "kty": "OKP", "x": public}, separators=(",", ":"))
        self.key_id = f"ds_{_text(hashlib.sha256(thumbprint.encode()).digest())}"
        self.jwks = {
            "keys": [
                {"kty": "OKP", "crv": "Ed25519", "x": public, "kid": self.key_id, "use": "sig", "alg": "EdDSA"},
            ]
        }

    def signature(self, body: bytes) -> str:
        seconds = self._clock.now_ms() // 1000
        signed = _text(self._key.sign(b"%d.%b" % (seconds, body)))
        return f"t={seconds},kid={self.key_id},ed25519={signed}"

    def token(self, subscription: str, generation: int) -> str:
        claims = {
            "sub": subscription,
            "generation": generation,
            "exp": self._clock.now_ms() // 1000 + TOKEN_SECONDS,
            "jti": self._chance.randbytes(8).hex(),
        }
        told = _text(json.dumps(claims).encode())
        return f"{told}.{self._mark(told)}"

    def generation_in(self, token: str, subscription: str) -> int:
        """The generation that a token was given for."""
        told, _, mark = token.partition(".")
        if not token.isascii() or not hmac.compare_digest(mark, self._mark(told)):
            raise TokenInvalid("the token is none of ours")
        claims: dict[str, Any] = json.loads(urlsafe_b64decode(told + "=" * (-len(told) % 4)))
        if claims["sub"] != subscription:
            raise TokenInvalid("the token is for another subscription")
        if self._clock.now_ms() // 1000 > claims["exp"]:
            raise TokenExpired("the token has expired")
        return int(claims["generation"])

    def _mark(self, told: str) -> str:
        return _text(hmac.digest(self._secret, told.encode(), "sha256"))


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
