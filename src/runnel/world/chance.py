"""Luck as a guest: all randomness comes from a Chance that was handed in, so that one seed replays a whole run."""

import os
import random
from hashlib import blake2b


class Chance(random.Random):
    """A source of luck with a seed; `fork` gives a part of the program luck of its own.

    Forks depend on the seed and their name alone, not on what was drawn before or in which order forks were made.
    """

    def __init__(self, seed: int | str | None = None) -> None:
        self.root = os.urandom(16).hex() if seed is None else str(seed)
        super().__init__(int.from_bytes(blake2b(self.root.encode(), digest_size=8).digest()))

    def fork(self, name: str) -> "Chance":
        return Chance(f"{self.root}/{name}")
