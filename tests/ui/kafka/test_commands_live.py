"""The commands against a real node."""

import json
import signal
import subprocess
import sys

import pytest


def test_a_topic_is_made_shown_changed_and_deleted(node):
    made = node.json("topic", "create", "life", "--partitions", "3", "--setting", "retention.ms=3600000")
    assert made == [{"topic": "life", "id": made[0]["id"], "partitions": 3}]
    assert {"topic": "life", "partitions": 3} in node.json("topic", "list")
    shown = node.json("topic", "describe", "life")[0]
    assert shown["id"] == made[0]["id"]
    assert shown["offsets"] == [
        {"partition": number, "leader": 0, "first": 0, "next": 0, "kept": 0} for number in range(3)
    ]
    assert shown["settings"] == [{"name": "retention.ms", "value": "3600000", "from": "topic"}]
    node.call("topic", "alter", "life", "--partitions", "4", "--reset", "retention.ms", "--setting", "flush.ms=9")
    everything = node.json("topic", "describe", "life", "--settings")[0]
    assert everything["partitions"] == 4
    by_name = {each["name"]: each for each in everything["settings"]}
    assert by_name["retention.ms"]["from"] == "default"
    assert by_name["flush.ms"]["value"] == "9"
    assert "every acknowledged record is durable already" in by_name["flush.ms"]["says"]
    assert node.call("topic", "delete", "life") == "'life' is deleted\n"
    assert "life" not in [each["topic"] for each in node.json("topic", "list")]


def test_what_a_topic_command_cannot_do_it_says_with_the_next_step(node):
    node.call("topic", "create", "taken")
    assert "'runnel topic describe' shows it" in node.call("topic", "create", "taken", code=2)
    assert node.call("topic", "create", "taken", "--if-not-exists").startswith("'taken' is there")
    assert "'runnel topic list' shows what there is" in node.call("topic", "describe", "absent", code=2)
    assert node.call("topic", "delete", "absent", code=2).startswith("runnel: topic 'absent': there is no such topic")
    node.call("topic", "delete", "absent", "--if-exists")
    assert "nothing to change" in node.call("topic", "alter", "taken", code=2)
    assert "no topic setting 'retentions.ms'" in node.call(
        "topic", "alter", "taken", "--setting", "retentions.ms=1", code=2
    )
    assert "write NAME=VALUE" in node.call("topic", "create", "x", "--setting", "a", code=2)
    assert "did you mean '--partitions'" in node.call("topic", "create", "x", "--partition", "3", code=2)
    assert node.call("topic", "create", "only-seen", "--check") == "'only-seen' would be made\n"
    assert "no such topic" in node.call("topic", "describe", "only-seen", code=2)


def test_lines_go_in_and_come_out(node):
    lines = "".join(f"key-{number % 7}:line {number}\n" for number in range(2000))
    node.call("topic", "create", "lines", "--partitions", "3")
    done = node.call("produce", "lines", "-K", ":", "--header", "from=test", "--compression", "zstd", given=lines)
    assert done == ""
    out = node.call("consume", "lines", "--keys", "--separator", ":")
    assert sorted(out.splitlines()) == sorted(lines.splitlines())
    for key in range(7):
        own = [line for line in out.splitlines() if line.startswith(f"key-{key}:")]
        assert own == [line for line in lines.splitlines() if line.startswith(f"key-{key}:")]
    assert len(node.call("consume", "lines", "-n", "13").splitlines()) == 13
    assert len(node.call("consume", "lines", "--from", "-2", "--partition", "0,2").splitlines()) == 4
    assert node.call("consume", "lines", "--from", "end") == ""
    record = json.loads(node.call("consume", "lines", "--json", "-n", "1"))
    assert record["headers"] == [["from", "test"]]


def test_what_consume_prints_as_json_produce_takes(node):
    node.call("topic", "create", "bytes", "copy", "--partitions", "2")
    given = [
        {"value": None, "key": "only a key", "partition": 1},
        {"value": {"base64": "/w=="}, "headers": [["a", "1"], ["a", None]], "partition": 0, "timestamp": 1700000000123},
        {"value": "ö", "key": None, "partition": 0, "timestamp": "2023-11-14T22:13:20.124Z"},
    ]
    account = node.json("produce", "bytes", given="\n".join(map(json.dumps, given)))
    assert account["records"] == 3
    assert account["partitions"] == [
        {"partition": 0, "records": 2, "first": 0, "last": 1},
        {"partition": 1, "records": 1, "first": 0, "last": 0},
    ]
    printed = node.call("consume", "bytes", "--json")
    node.call("produce", "copy", "--json", given=printed)

    def told(topic):
        lines = [json.loads(line) for line in node.call("consume", topic, "--json").splitlines()]
        return sorted([{**each, "topic": ""} for each in lines], key=lambda each: (each["partition"], each["offset"]))

    assert told("copy") == told("bytes")
    assert told("bytes")[0]["timestamp"] == 1700000000123
    assert told("bytes")[0]["headers"] == [["a", "1"], ["a", None]]
    places = node.call("consume", "bytes", "--from", "2023-11-14T22:13:20.124Z", "--until", "1h", "--places", "-t")
    assert places == "2023-11-14T22:13:20.124Z\tbytes[0]@1\tö\n"


def test_a_whole_file_is_one_record_to_the_byte(node, tmp_path):
    content = bytes(range(256)) * 4000
    (tmp_path / "whole").write_bytes(content)
    node.call("produce", "files", "--whole", "--file", tmp_path / "whole", "--key", "whole")
    assert node.call("consume", "files", "--format", "hex", "-k") == f"whole\t{content.hex()}\n"
    (tmp_path / "whole").write_bytes(content * 2)
    said = node.call("produce", "files", "--whole", "--file", tmp_path / "whole", code=2)
    assert "runnel topic alter TOPIC --setting max.message.bytes" in said
    assert "cannot be read" in node.call("produce", "files", "--file", tmp_path / "absent", code=2)


def test_a_bad_line_is_named_and_what_was_before_it_is_sent(node):
    node.call("topic", "create", "hexes")
    said = node.call("produce", "hexes", "--format", "hex", given="00\n01\nzz\n02\n", code=2)
    assert said == "runnel: line 3: the value is not hex; 2 records before it were sent\n"
    assert node.call("consume", "hexes", "--format", "hex") == "00\n01\n"
    assert "no such partition" in node.call("produce", "hexes", "--partition", "9", given="x\n", code=2)
    assert "has no partition 4" in node.call("consume", "hexes", "--partition", "4", code=2)
    said = node.call("consume", "hexes", "--format", "json", code=2)
    assert said.startswith("runnel: record hexes[0]@0: its value is not JSON")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_following_goes_on_until_it_is_interrupted(node, number):
    topic = f"followed-{number}"
    node.call("topic", "create", topic)
    node.call("produce", topic, given="before\n")
    following = node.begin("consume", topic, "--follow")
    try:
        assert following.stdout.readline() == b"before\n"
        node.call("produce", topic, given="after\n")
        assert following.stdout.readline() == b"after\n"
        following.send_signal(number)
        out, errors = following.communicate(timeout=20)
    finally:
        following.kill()
        following.communicate()
    assert (out, errors, following.returncode) == (b"", b"", 130)


def test_a_producer_that_is_interrupted_has_sent_what_it_read(node):
    node.call("topic", "create", "cut")
    cut = node.begin("produce", "cut")
    following = node.begin("consume", "cut", "--follow")
    try:
        cut.stdin.write(b"one\ntwo\n")
        cut.stdin.flush()
        assert [following.stdout.readline() for _ in range(2)] == [b"one\n", b"two\n"]
        cut.send_signal(signal.SIGINT)
        assert cut.wait(20) == 130
    finally:
        for process in (cut, following):
            process.kill()
            process.communicate()


def test_whoever_stops_reading_our_output_ends_us_quietly(node):
    node.call("produce", "long", given="".join(f"{number}\n" for number in range(20_000)))
    command = node.begin("consume", "long")
    assert command.stdout.readline() == b"0\n"
    command.stdout.close()
    assert command.wait(20) == 141
    assert command.stderr.read() == b""
    command.stderr.close()
    command.stdin.close()


def test_status_tells_brokers_zones_and_topics(node):
    facts = node.json("status")
    assert facts["healthy"]
    assert facts["zones"] == ["here"]
    assert [(each["address"], each["zone"]) for each in facts["brokers"]] == [(node.bootstrap, "here")]
    assert facts["topics"] == len(node.json("topic", "list"))
    assert "all is well" in node.call("status")


def test_where_nothing_listens_the_next_step_is_said(node, free_port):
    for words in (["topic", "list"], ["status"], ["produce", "t"], ["consume", "t"]):
        said = node.call(*words, "--bootstrap", f"127.0.0.1:{free_port}", code=3)
        assert said == (
            f"runnel: no Kafka cluster at 127.0.0.1:{free_port} (connection refused): start a node with "
            "'runnel serve', or say where one is with --bootstrap HOST:PORT\n"
        )


def test_words_that_do_not_go_together_are_refused(node):
    for words, says in [
        (["consume", "t", "--from", "soon"], "'soon' is no place in a topic"),
        (["consume", "t", "--follow", "--until", "end"], "--follow has no end"),
        (["consume", "t", "--group", "g", "--from", "5"], "runnel group reset"),
        (["consume", "t", "--group", "g", "--partition", "5"], "leave out --partition"),
        (["consume", "t", "-n", "0"], "at least one record"),
        (["produce", "t", "--whole", "--json"], "leave out --json"),
        (["produce", "t", "-X", "nonsense=1"], "librdkafka takes no such property"),
        (["produce", "t", "-X", "nonsense"], "is not NAME=VALUE"),
        (["produce", "t", "--bootstrap", "here"], "is not an address"),
        (["topic"], "the following arguments are required: ACTION"),
    ]:
        assert says in node.call(*words, code=2)


def test_the_bootstrap_is_a_setting_like_others(node, tmp_path):
    (tmp_path / "my.toml").write_text(f'bootstrap = "{node.bootstrap}"\n')
    (tmp_path / "client").write_text("# a comment\nclient.id = me\n")
    words = ["topic", "list", "--config", str(tmp_path / "my.toml"), "--client-file", str(tmp_path / "client")]
    done = subprocess.run([sys.executable, "-m", "runnel", *words], capture_output=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr


def test_a_group_reads_on_is_shown_with_its_lag_moved_and_deleted(node):
    node.call("topic", "create", "grouped", "--partitions", "2")
    node.call("produce", "grouped", "-K", ":", given="".join(f"{number}:{number}\n" for number in range(100)))
    first = node.call("consume", "grouped", "--group", "readers", "-n", "40").split()
    half = node.json("group", "describe", "readers")[0]
    assert [row["partition"] for row in half["partitions"]] == [0, 1]
    assert sum(row["committed"] or 0 for row in half["partitions"]) == 40
    second = node.call("consume", "grouped", "--group", "readers").split()
    assert sorted(map(int, first + second)) == list(range(100))
    assert node.call("consume", "grouped", "--group", "readers") == ""
    node.call("produce", "grouped", "--partition", "1", given="more\n")
    assert {"group": "readers", "state": "empty", "protocol": "classic"} in node.json("group", "list")
    shown = node.json("group", "describe", "readers")[0]
    assert (shown["state"], shown["lag"], shown["members"]) == ("empty", 1, [])
    assert [row["lag"] for row in shown["partitions"]] == [0, 1]
    moved = node.json("group", "reset", "readers", "--to", "-2", "--check")
    assert [row["from"] - row["to"] for row in moved] == [2, 1]
    assert node.json("group", "describe", "readers")[0]["lag"] == 1
    node.call("group", "reset", "readers", "--topic", "grouped:1", "--to", "beginning")
    read = node.call("consume", "grouped", "--group", "readers").split()
    assert len(read) == [row["next"] for row in shown["partitions"]][1]
    assert node.call("group", "delete", "readers") == "'readers' is deleted\n"
    assert "readers" not in [row["group"] for row in node.json("group", "list")]


def test_what_a_group_command_cannot_do_it_says_with_the_next_step(node):
    node.call("topic", "create", "watched")
    node.call("produce", "watched", given="1\n")
    member = node.begin("consume", "watched", "--group", "busy", "--follow")
    try:
        assert member.stdout.readline() == b"1\n"
        shown = node.json("group", "describe", "busy")[0]
        assert shown["state"] == "stable"
        assert [each["partitions"] for each in shown["members"]] == [1]
        assert "stop them first" in node.call("group", "reset", "busy", "--topic", "watched", "--to", "end", code=2)
        assert "stop them first" in node.call("group", "delete", "busy", code=2)
        member.send_signal(signal.SIGINT)
        assert member.wait(20) == 130
    finally:
        member.kill()
        member.communicate()
    assert node.json("group", "describe", "busy")[0]["lag"] == 0
    for words in (["describe", "none"], ["delete", "none"], ["reset", "none", "--to", "end"]):
        assert "none" in node.call("group", *words, code=2)
    node.call("group", "delete", "none", "--if-exists")
    assert "has no partition 7" in node.call("group", "reset", "busy", "--topic", "watched:7", "--to", "end", code=2)
    assert "'soon' is no place" in node.call("group", "reset", "busy", "--to", "soon", code=2)


def test_a_node_that_is_killed_is_waited_for_and_nothing_is_lost_or_doubled(mortal):
    mortal.call("topic", "create", "survives")
    producing = mortal.begin("produce", "survives")
    following = mortal.begin("consume", "survives", "--follow")
    try:
        producing.stdin.write(b"".join(b"%d\n" % number for number in range(100)))
        producing.stdin.flush()
        seen = [following.stdout.readline() for _ in range(100)]
        mortal.kill()
        producing.stdin.write(b"".join(b"%d\n" % number for number in range(100, 200)))
        producing.stdin.flush()
        assert b"does not answer, waiting for it" in following.stderr.readline()
        assert b"does not answer, waiting for it" in producing.stderr.readline()
        mortal.start()
        seen += [following.stdout.readline() for _ in range(100)]
        assert seen == [b"%d\n" % number for number in range(200)]
        _, said = producing.communicate(timeout=30)
        assert b"200 records for 'survives' acknowledged" in said
        assert producing.returncode == 0
        assert mortal.call("consume", "survives").split() == [str(number) for number in range(200)]
    finally:
        for process in (producing, following):
            process.kill()
            process.communicate()


def test_a_node_that_stays_away_ends_a_producer_with_what_it_knows(mortal):
    mortal.call("topic", "create", "gone")
    producing = mortal.begin("produce", "gone", "--timeout", "3")
    try:
        producing.stdin.write(b"first\n")
        producing.stdin.flush()
        while not mortal.call("consume", "gone"):
            assert producing.poll() is None
        mortal.kill()
        _, said = producing.communicate(b"never\n", timeout=40)
        assert b"1 of 2 records for topic 'gone' failed, first line 2: not acknowledged in time" in said
        assert producing.returncode == 4
    finally:
        producing.kill()
        producing.communicate()
    mortal.start()
