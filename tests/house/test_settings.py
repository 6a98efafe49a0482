import re
from dataclasses import dataclass
from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnel.errors import Refused
from runnel.settings import Address, Knob, Settings, described, load
from runnel.settings.knob import PRESETS


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Knobs of every kind."""

    size_max: Annotated[int, Knob("A size.", unit="bytes", low=1, high=2**40)] = 1
    wait_ms: Annotated[int, Knob("A wait.", unit="ms", low=0)] = 1
    share: Annotated[float, Knob("A share.", low=0, high=1)] = 0.5
    on: Annotated[bool, Knob("A switch.")] = False
    mode: Annotated[Literal["a", "b"], Knob("A choice.")] = "a"
    door: Annotated[str, Knob("A door.", unit="address")] = ":1"


KNOBS = described(Sample)


def toml(tmp_path, text):
    file = tmp_path / "runnel.toml"
    file.write_text(text)
    return file


def test_without_a_word_from_anyone_the_defaults_hold():
    loaded = load()
    assert loaded.settings == Settings()
    assert set(loaded.origins.values()) == {"default"}


def test_the_last_to_speak_wins_and_is_remembered(tmp_path):
    file = toml(tmp_path, 'preset = "small"\nzone = "file"\ndrain_ms_max = "2s"\nhttp = ":1"')
    loaded = load({"zone": "flag"}, {"RUNNEL_ZONE": "env", "RUNNEL_HTTP": ":2"}, file)
    assert (loaded.settings.zone, loaded.origins["zone"]) == ("flag", "--zone")
    assert (loaded.settings.http, loaded.origins["http"]) == (":2", "RUNNEL_HTTP")
    assert (loaded.settings.drain_ms_max, loaded.origins["drain_ms_max"]) == (2000, str(file))
    assert (loaded.settings.log_format, loaded.origins["log_format"]) == ("json", "preset small")
    assert (loaded.settings.log_level, loaded.origins["log_level"]) == ("info", "default")


def test_the_environment_may_name_the_file(tmp_path):
    assert load(env={"RUNNEL_CONFIG": str(toml(tmp_path, 'zone = "z"'))}).settings.zone == "z"


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_gives_values_that_its_knobs_allow(preset):
    settings = load({"preset": preset}).settings
    for name, knob in described(Settings).items():
        assert knob.read(getattr(settings, name)) == getattr(settings, name)


@pytest.mark.parametrize(
    ("env", "says"),
    [
        ({"RUNNEL_HTPT": "x"}, "there is no setting RUNNEL_HTPT: did you mean 'RUNNEL_HTTP'?"),
        ({"RUNNEL_QQQQ": "x"}, "'runnel config' lists what there is"),
        ({"RUNNEL_HTTP": "x"}, "setting 'http' from RUNNEL_HTTP: 'x' is not an address: write HOST:PORT"),
        ({"RUNNEL_DRAIN_MS_MAX": "soon"}, "'soon' is not a whole number of ms"),
        ({"RUNNEL_DRAIN_MS_MAX": "1 parsec"}, "ends in no known unit: use one of ms, s, m"),
        ({"RUNNEL_DRAIN_MS_MAX": "-1"}, "out of bounds: 0 to 600,000"),
        ({"RUNNEL_LOG_LEVEL": "loud"}, "'loud' is none of debug, info, warning, error"),
    ],
)
def test_what_the_environment_gets_wrong_is_refused_by_name(env, says):
    with pytest.raises(Refused, match=re.escape(says)):
        load(env=env)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("htpt = 1", "there is no setting 'htpt': did you mean 'http'?"),
        ("zone = 3", "3 is not text: put it in quotes"),
        ("drain_ms_max = 1.5", "1.5 is not a whole number of ms"),
        ("drain_ms_max = true", "True is not a whole number"),
        ("zone = ", "is not valid TOML: invalid value (at "),
        ("\nzone = 'a'\nzone = 'b'", "is not valid TOML: cannot overwrite a value (at "),
    ],
)
def test_what_the_file_gets_wrong_is_refused_with_its_name(tmp_path, text, says):
    file = toml(tmp_path, text)
    with pytest.raises(Refused, match=re.escape(says)) as caught:
        load(file=file)
    assert str(file) in str(caught.value)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(Refused, match=re.escape("nope.toml' does not exist: create it")):
        load(file=tmp_path / "nope.toml")


def test_a_file_that_is_a_folder_or_not_text_is_refused(tmp_path):
    with pytest.raises(Refused, match="cannot be read"):
        load(file=tmp_path)
    (tmp_path / "x").write_bytes(b"\xff\xfe")
    with pytest.raises(Refused, match="is not valid TOML"):
        load(file=tmp_path / "x")


def test_names_that_kubernetes_plants_are_not_taken_for_settings():
    names = ("RUNNEL_SERVICE_HOST", "RUNNEL_PORT", "RUNNEL_PORT_8080_TCP_ADDR", "RUNNEL_SERVICE_PORT_KAFKA")
    assert load(env=dict.fromkeys(names, "tcp://10.0.0.1")).settings == Settings()


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("size_max", "4MiB", 4 * 2**20),
        ("size_max", "1.5 kib", 1536),
        ("size_max", "10_000", 10_000),
        ("size_max", 7, 7),
        ("wait_ms", "2s", 2000),
        ("wait_ms", "0.5s", 500),
        ("wait_ms", "1h", 3_600_000),
        ("share", "0.25", 0.25),
        ("share", 1, 1.0),
        ("on", "yes", True),
        ("on", False, False),
        ("mode", "b", "b"),
        ("door", "[::1]:9", "[::1]:9"),
    ],
)
def test_text_becomes_the_value_that_was_meant(name, text, value):
    read = KNOBS[name].read(text)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("size_max", "0"),
        ("size_max", "0.3b"),
        ("wait_ms", "4MiB"),
        ("wait_ms", "_"),
        ("wait_ms", "9" * 5000),
        ("share", "1.1"),
        ("share", "nan"),
        ("on", "maybe"),
    ],
)
def test_text_that_means_nothing_is_refused(name, text):
    with pytest.raises(Refused):
        KNOBS[name].read(text)


@given(st.from_type(object).filter(lambda thing: not isinstance(thing, bool | int | str)) | st.text())
def test_nothing_but_a_value_or_a_refusal_comes_out(thing):
    for knob in KNOBS.values():
        try:
            value = knob.read(thing)
        except Refused:
            continue
        assert type(value) is knob.kind


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("a:1", "a", 1), (":8080", "0.0.0.0", 8080), ("[::1]:0", "::1", 0), ("127.0.0.1:65535", "127.0.0.1", 65535)],
)
def test_addresses_are_read_and_written(text, host, port):
    address = Address.parse(text)
    assert (address.host, address.port) == (host, port)
    assert Address.parse(str(address)) == address


@pytest.mark.parametrize("text", ["", "8080", "a:", "a:b", "a:65536", "::1:80", "a:-1", "a:\u0661"])
def test_what_is_not_an_address_is_refused(text):
    with pytest.raises(Refused, match="write HOST:PORT"):
        Address.parse(text)
