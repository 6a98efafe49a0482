import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnel.errors import Refused
from runnel.metadata.topic_settings import (
    BROKER_SETTINGS,
    TOPIC_SETTINGS,
    Kind,
    read_settings,
    rules_of,
    setting_of,
    value_of,
)
from runnel.table.files.rules import row_rules


@pytest.mark.parametrize("setting", TOPIC_SETTINGS.values(), ids=lambda setting: setting.name)
def test_every_default_is_a_value_that_would_be_taken_and_every_setting_is_explained(setting):
    assert setting.read(setting.default) == setting.default
    assert setting.says.endswith(".")
    assert setting.honoured or setting.here, "what is not honoured says why"
    assert setting.documentation.endswith(".")


def test_the_catalogue_is_that_of_kafka_4_and_what_our_tables_need():
    assert len([name for name in TOPIC_SETTINGS if not name.startswith("table.")]) == 33
    assert {"retention.ms", "max.message.bytes", "segment.bytes", "remote.storage.enable"} <= set(TOPIC_SETTINGS)
    assert BROKER_SETTINGS["message.max.bytes"] is TOPIC_SETTINGS["max.message.bytes"]


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("retention.ms", "abc", "not a whole number"),
        ("retention.ms", "-2", "not between -1"),
        ("retention.ms", "1.5", "not a whole number"),
        ("retention.ms", "", "not a whole number"),
        ("retention.ms", str(1 << 63), "not between"),
        ("max.message.bytes", str(1 << 31), "not between 0 and 2,147,483,647"),
        ("min.cleanable.dirty.ratio", "1.5", "not between 0 and 1"),
        ("preallocate", "yes", "neither true nor false"),
        ("compression.type", "brotli", "none of uncompressed"),
        ("compression.type", "", "none of uncompressed"),
        ("message.timestamp.type", "createtime", "none of CreateTime"),
        ("cleanup.policy", "compact", "compaction by key does not exist yet"),
        ("cleanup.policy", "delete,compact", "compaction by key does not exist yet"),
        ("cleanup.policy", "drop", "none of delete"),
        ("min.insync.replicas", "0", "not between 1"),
        ("segment.bites", "1", "there is no topic setting 'segment.bites': did you mean 'segment.bytes'?"),
        ("zzz", "1", "there is no topic setting 'zzz'$"),
    ],
)
def test_what_cannot_be_is_refused_with_what_could(name, text, says):
    with pytest.raises(Refused, match=says) as refusal:
        read_settings({name: text})
    assert name in str(refusal.value)


def test_values_are_kept_in_their_plain_form_and_nulls_mean_the_default():
    given = {
        "retention.ms": " 0100 ",
        "preallocate": "TRUE",
        "cleanup.policy": " delete ,delete",
        "retention.bytes": None,
    }
    assert read_settings(given) == {"retention.ms": "100", "preallocate": "true", "cleanup.policy": "delete,delete"}


def test_a_topics_own_value_goes_before_the_clusters_and_that_before_the_default():
    setting = setting_of("retention.ms")
    assert value_of(setting, {}, {}) == "604800000"
    assert value_of(setting, {}, {"log.retention.ms": "5"}) == "5"
    assert value_of(setting, {"retention.ms": "7"}, {"log.retention.ms": "5"}) == "7"


def test_rules_are_numbers():
    rules = rules_of({"retention.ms": "7", "message.timestamp.type": "LogAppendTime"}, {"message.max.bytes": "9"})
    assert (rules.retention_ms, rules.retention_bytes, rules.max_message_bytes) == (7, -1, 9)
    assert rules.is_append_time
    assert not rules.keeps_all
    assert rules_of({"cleanup.policy": "", "retention.bytes": "5"}, {}).keeps_all


@given(st.sampled_from(list(TOPIC_SETTINGS)), st.text())
def test_no_text_does_anything_but_be_taken_or_refused(name, text):
    setting = TOPIC_SETTINGS[name]
    try:
        taken = setting.read(text)
    except Refused:
        return
    assert setting.read(taken) == taken
    if setting.kind in (Kind.INT, Kind.LONG):
        assert setting.low <= int(taken) <= setting.high


@pytest.mark.parametrize("name", ["table.values", "table.partition"])
def test_what_a_table_cannot_be_told_is_refused_when_it_is_said(name):
    good = {
        "table.values": ["auto", "RAW", "schema", "schema:7", "json"],
        "table.partition": ["", "country", "day(timestamp)", "day( timestamp ) , country,HOUR(at)"],
    }
    bad = {
        "table.values": ["avro", "schema:", "schema:0", "raw:1", ""],
        "table.partition": ["week(a)", "day(a", "a b", ","],
    }
    for text in good[name]:
        assert read_settings({name: text}) == {name: text.strip()}
        row_rules({name: text})
    for text in bad[name]:
        with pytest.raises(Refused, match=name.replace(".", "[.]")):
            read_settings({name: text})
