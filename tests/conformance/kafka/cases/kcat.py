"""kcat, a client in C on librdkafka: its documented ways to list, produce, consume and query."""

import json
import shutil
import subprocess

from tests.conformance.kafka.ledger import CannotRun, case
from tests.conformance.kafka.stage import until


def kcat(stage, *words, given="", bootstrap=None, code=0):
    program = shutil.which("kcat") or shutil.which("kafkacat")
    if program is None:
        raise CannotRun("kcat is not installed: tools/system-packages kcat")
    command = [program, "-b", bootstrap or stage.bootstrap, *map(str, words)]
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == code, (command, done.returncode, done.stderr[-500:])
    return done.stdout


@case()
def the_cluster_is_listed(stage):
    topic = stage.topic(3)
    found = json.loads(kcat(stage, "-L", "-J", "-t", topic))
    assert [each["topic"] for each in found["topics"]] == [topic]
    assert [each["partition"] for each in found["topics"][0]["partitions"]] == [0, 1, 2]
    assert found["brokers"]
    assert all(each["leader"] == found["brokers"][0]["id"] for each in found["topics"][0]["partitions"])


@case()
def lines_in_and_out(stage):
    topic = stage.topic()
    lines = "".join(f"line {n}\n" for n in range(5000))
    kcat(stage, "-P", "-t", topic, given=lines)
    assert kcat(stage, "-C", "-e", "-q", "-t", topic) == lines
    assert kcat(stage, "-C", "-e", "-q", "-t", topic, "-o", -3) == "line 4997\nline 4998\nline 4999\n"
    assert kcat(stage, "-C", "-q", "-t", topic, "-o", 100, "-c", 2) == "line 100\nline 101\n"


@case()
def keys_headers_and_json(stage):
    topic = stage.topic()
    kcat(stage, "-P", "-t", topic, "-K", ":", "-H", "a=1", "-H", "b=2", "-Z", given="k:v\n:\nx:\n")
    found = [json.loads(line) for line in kcat(stage, "-C", "-e", "-q", "-J", "-t", topic).splitlines()]
    assert [(each["key"], each["payload"]) for each in found] == [("k", "v"), (None, None), ("x", None)]
    assert found[0]["headers"] == ["a", "1", "b", "2"]
    assert [each["offset"] for each in found] == [0, 1, 2]
    shown = kcat(stage, "-C", "-e", "-q", "-t", topic, "-f", "%t/%p/%o %K:%k %S:%s\n")
    assert shown.splitlines()[0] == f"{topic}/0/0 1:k 1:v"


@case()
def every_compression(stage):
    topic = stage.topic()
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        kcat(stage, "-P", "-t", topic, "-z", codec, given=f"{codec} {'x' * 2000}\n" * 20)
    out = kcat(stage, "-C", "-e", "-q", "-t", topic).splitlines()
    assert [line.split()[0] for line in out] == [c for c in ("gzip", "snappy", "lz4", "zstd") for _ in range(20)]


@case()
def an_idempotent_producer(stage):
    topic = stage.topic()
    lines = "".join(f"{n}\n" for n in range(20_000))
    kcat(stage, "-P", "-t", topic, "-X", "enable.idempotence=true", given=lines)
    assert kcat(stage, "-C", "-e", "-q", "-t", topic) == lines


@case()
def offsets_are_queried_by_time(stage):
    topic = stage.topic()
    kcat(stage, "-P", "-t", topic, given="a\nb\n")
    stamps = [int(each) for each in kcat(stage, "-C", "-e", "-q", "-t", topic, "-f", "%T\n").split()]
    assert f"{topic} [0] offset 0" in kcat(stage, "-Q", "-t", f"{topic}:0:{stamps[0]}")
    assert f"{topic} [0] offset 2" in kcat(stage, "-Q", "-t", f"{topic}:0:-1")
    assert f"{topic} [0] offset 0" in kcat(stage, "-Q", "-t", f"{topic}:0:-2")
    between = kcat(stage, "-C", "-e", "-q", "-t", topic, "-o", f"s@{stamps[0]}", "-o", f"e@{stamps[1] + 1}")
    assert between.split() == ["a", "b"]


@case()
def a_group_member_reads_and_commits(stage):
    """-G: what was read once is not read again."""
    topic = stage.topic(2)
    kcat(stage, "-P", "-t", topic, given="".join(f"{n}\n" for n in range(100)))
    words = ["-G", stage.name, "-q", "-e", "-X", "auto.offset.reset=earliest", topic]
    assert sorted(map(int, kcat(stage, *words).split())) == list(range(100))
    kcat(stage, "-P", "-t", topic, given="100\n")
    assert kcat(stage, *words).split() == ["100"]


@case(seconds=90, ends_brokers=True)
def a_node_that_is_killed_and_started_again(stage):
    """Everything that kcat was told is written is there after kill -9."""
    with stage.node() as node:
        topic = stage.topic(bootstrap=node.bootstrap)
        lines = "".join(f"{n}\n" for n in range(10_000))
        kcat(stage, "-P", "-t", topic, "-X", "enable.idempotence=true", given=lines, bootstrap=node.bootstrap)
        node.kill()
        node.start()
        out = []
        until(lambda: out.append(kcat(stage, "-C", "-e", "-q", "-t", topic, bootstrap=node.bootstrap)) or out[-1])
        assert out[-1] == lines
