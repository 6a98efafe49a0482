"""What of a group is in the ledger: its bytes are kept for ever."""

import os
from pathlib import Path

import pytest

from runnel.broker.groups.kept import (
    KeptClassic,
    KeptConsumer,
    KeptConsumers,
    KeptMember,
    decode_classic,
    decode_consumers,
    encode_kept,
)
from runnel.errors import Corrupt

GOLDEN = Path(__file__).parents[2] / "golden" / "groups"
T, U = b"t" * 16, b"u" * 16
CLASSIC = KeptClassic(
    "consumer",
    "range",
    "m1",
    True,
    [
        KeptMember("m1", None, "billing", "/10.0.0.1", 10_000, 300_000, [("range", b"wants")], b"gets"),
        KeptMember("m2", "static", "billing", "/10.0.0.2", 10_000, 300_000, [("range", b""), ("sticky", b"x")], b""),
    ],
)
CONSUMERS = KeptConsumers(
    7,
    "uniform",
    [
        KeptConsumer(
            "m1", "static", "rack", "billing", "/10.0.0.1", 300_000, ["orders"], "or.*", "range", 6, 5, "revoking",
            {T: [0, 1]}, {T: [2]}, {T: [0, 1], U: [0]},
        )
    ],
    {T: 3, U: 1},
)  # fmt: skip
MIXED = KeptConsumers(
    8,
    "range",
    [
        KeptConsumer(
            "m2", None, None, "billing", "/10.0.0.1", 300_000, ["orders"], None, None, 8, 6, "stable",
            {T: [0]}, {}, {T: [0]}, [("range", b"wants")], 10_000,
        )
    ],
    {T: 1},
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "kept", "decode"),
    [("classic-v1", CLASSIC, decode_classic), ("consumers-v2", MIXED, decode_consumers)],
)
def test_kept_groups_keep_their_bytes_for_ever(name, kept, decode):
    path = GOLDEN / f"{name}.bin"
    if os.environ.get("RUNNEL_GOLDEN") == "keep" and not path.exists():
        path.write_bytes(encode_kept(kept))
    assert path.read_bytes() == encode_kept(kept)
    assert decode(path.read_bytes(), "g") == kept
    for cut in range(1, len(path.read_bytes())):
        with pytest.raises(Corrupt):
            decode(path.read_bytes()[:cut], "g")


def test_what_was_kept_before_members_of_both_protocols_could_meet_is_still_read():
    assert decode_consumers((GOLDEN / "consumers-v1.bin").read_bytes(), "g") == CONSUMERS


def test_a_group_that_never_had_members_has_nothing_kept():
    assert decode_classic(b"", "g") == KeptClassic()
    assert decode_consumers(b"", "g") == KeptConsumers()
