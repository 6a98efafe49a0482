"""What is not used costs nothing."""

import subprocess
import sys


def test_the_front_door_imports_no_message_and_the_first_request_only_its_own():
    program = """
import sys
from runnel.codec import wire
def loaded():
    return sorted(name for name in sys.modules if name.startswith("runnel.codec.messages."))
assert loaded() == [], loaded()
wire.decode_request(12, 0, b"\\0\\1g" + bytes(4) + b"\\0\\1m", 0)
assert loaded() == ["runnel.codec.messages.heartbeat"], loaded()
assert "asyncio" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=30)


def test_a_version_is_compiled_once():
    from runnel.codec.wire import request_decoder, response_encoder

    assert request_decoder(12, 4) is request_decoder(12, 4)
    assert response_encoder(12, 4) is response_encoder(12, 4)


def test_messages_take_and_show_what_they_were_told():
    import pytest

    from runnel.codec.messages.heartbeat import HeartbeatRequest

    beat = HeartbeatRequest(group_id="g", generation_id=3)
    assert repr(beat) == "HeartbeatRequest(group_id='g', generation_id=3)"
    assert beat == HeartbeatRequest(group_id="g", generation_id=3)
    assert beat != HeartbeatRequest(group_id="g", generation_id=4)
    with pytest.raises(AttributeError):
        beat.mistyped = 1
    with pytest.raises(TypeError):
        HeartbeatRequest(mistyped=1)
