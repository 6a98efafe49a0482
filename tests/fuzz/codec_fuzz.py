"""Feeds bent messages to the codec for a while: `python tests/fuzz/codec_fuzz.py --seconds 60 --seed 1`.

Each round takes one message of one version, filled by chance, encodes it and bends the bytes: flips, cuts, claims of
absurd lengths, pieces said twice. The decoder may answer with a message or with `BadMessage`; it must not take longer
than the frame is long, nor more memory than a small factor of it. What it decodes must encode and decode again.
A failure prints its seed and the frame; the same seed gives the same rounds.
"""

# A program of its own that prints, lives by the real clock and brings its own seed:
# ruff: noqa: T201, TID251

import argparse
import random
import sys
import time
import tracemalloc

from runnel.codec.apis import APIS
from runnel.codec.declare import Message, Struct
from runnel.codec.framing import BadFrame, FrameReader, read_request_header
from runnel.codec.primitives import BadMessage
from runnel.codec.shapes import FIXED, Shape, shapes_of
from runnel.codec.wire import decode_bare, encode_bare

SECONDS_PER_FRAME_MAX = 0.5
# A decoded object is larger than its bytes; this is how much larger it may get, on top of what any round takes.
BYTES_PER_BYTE_MAX = 200
BYTES_OF_A_ROUND = 256 * 1024

ABSURD = [
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\xff",
    b"\xfe\xff\xff\xff\x07",
    b"\x7f\xff",
    b"\xff\xff",
    b"\x00",
    b"\x01",
    b"\x7f",
    b"\xff",
]


def filled(kind: type[Struct], version: int, flexible: bool, chance: random.Random) -> Struct:
    """A struct with values by chance in the fields of a version."""
    return kind(
        **{
            shape.name: _value(shape, version, flexible, chance)
            for shape in shapes_of(kind)
            if shape.facts.exists_in(version)
        }
    )


def _value(shape: Shape, version: int, flexible: bool, chance: random.Random) -> object:
    tagged = flexible and shape.tagged_in(version)
    if tagged and chance.random() < 0.3:
        return shape.facts.default
    if shape.nullable_in(version) and chance.random() < 0.2:
        return None
    if shape.array:
        return [_one(shape, version, flexible, chance) for _ in range(chance.choice([0, 1, 1, 2, 5]))]
    return _one(shape, version, flexible, chance)


def _one(shape: Shape, version: int, flexible: bool, chance: random.Random) -> object:
    if shape.struct is not None:
        return filled(shape.struct, version, flexible, chance)
    match shape.word:
        case "bool":
            return chance.random() < 0.5
        case "float64":
            return chance.uniform(-1e9, 1e9)
        case "uuid":
            return chance.randbytes(16)
        case "string":
            return chance.choice(["", "a", "topic", "ä" * 70])
        case "bytes" | "records":
            return chance.randbytes(chance.choice([0, 1, 60, 130]))
        case "uint16":
            return chance.getrandbits(16)
        case word:
            return chance.getrandbits(8 * FIXED[word][1]) - (1 << (8 * FIXED[word][1] - 1))


def bent(data: bytes, chance: random.Random) -> bytes:
    """The same bytes with one to four things wrong."""
    out = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randint(0, len(out))
        match chance.randrange(5):
            case 0 if out:
                out[at % len(out)] ^= 1 << chance.randrange(8)
            case 1:
                del out[at:]
            case 2:
                absurd = chance.choice(ABSURD)
                out[at : at + len(absurd)] = absurd
            case 3:
                out[at:at] = out[at : at + chance.randint(1, 40)]
            case _:
                out[at:at] = chance.randbytes(chance.randint(1, 12))
    return bytes(out)


def one_round(kind: type[Message], version: int, chance: random.Random) -> bool:
    """True if the bent frame still was a message."""
    told = filled(kind, version, version >= kind.flexible_from, chance)
    straight = encode_bare(told, version)
    assert encode_bare(decode_bare(kind, version, straight), version) == straight, f"{told} v{version}"
    frame = bent(straight, chance)
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    began = time.perf_counter()
    try:
        message = decode_bare(kind, version, frame)
    except BadMessage:
        message = None
    except BaseException:
        print(f"{kind.__name__} v{version} fed {frame.hex()}", file=sys.stderr)
        raise
    took = time.perf_counter() - began
    _, peak = tracemalloc.get_traced_memory()
    said = f"{kind.__name__} v{version} fed {frame.hex()}"
    assert took < SECONDS_PER_FRAME_MAX, f"{took:.1f} s for {said}"
    assert peak - before < BYTES_OF_A_ROUND + BYTES_PER_BYTE_MAX * len(frame), f"{peak - before} bytes for {said}"
    if message is None:
        return False
    again = encode_bare(message, version)
    assert encode_bare(decode_bare(kind, version, again), version) == again, said
    return True


def a_stream(chance: random.Random) -> None:
    """Garbage to the framing and the header."""
    reader = FrameReader(size_max=4096)
    try:
        for _ in range(4):
            size = chance.choice([8, 9, 20, 60, 4096, 4097, -1])
            for frame in reader.feed(size.to_bytes(4, "big", signed=True) + chance.randbytes(chance.randint(0, 80))):
                try:
                    read_request_header(chance.choice([b"\0\3\0\x09", b"\0\x12\0\3", b""]) + frame)
                except BadMessage:
                    continue
            assert reader.unfinished <= 4096 + 4
    except BadFrame:
        return


def fuzz(seed: int, seconds: float, rounds: int | None = None) -> dict[str, int]:
    """Runs until the time is over or the rounds are done."""
    chance = random.Random(seed)
    kinds = [kind for api in APIS.values() for kind in (api.request(), api.response())]
    done = alive = 0
    until = time.monotonic() + seconds
    tracemalloc.start()
    try:
        while time.monotonic() < until and done != rounds:
            kind = chance.choice(kinds)
            version = chance.randint(kind.version_first, kind.version_last)
            alive += one_round(kind, version, chance)
            a_stream(chance)
            done += 1
    finally:
        tracemalloc.stop()
    return {"seed": seed, "rounds": done, "still_messages": alive}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=None)
    told = parser.parse_args()
    seed = random.randrange(1 << 32) if told.seed is None else told.seed
    print(f"seed {seed}", flush=True)
    print(fuzz(seed, told.seconds))


if __name__ == "__main__":
    main()
