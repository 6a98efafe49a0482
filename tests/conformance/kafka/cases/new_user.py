"""What a person does in the first hour: start a node, use the tools they know, pull the plug, look what is left."""

import subprocess
import threading
import time

from tests.conformance.kafka.cases.java_tools import TOOLS, consume, java
from tests.conformance.kafka.cases.kcat import kcat
from tests.conformance.kafka.ledger import case
from tests.conformance.kafka.stage import until
from tools.apache_kafka import java_tool

LINES = 3000


@case(seconds=200, ends_brokers=True)
def the_plug_is_pulled_mid_stream(stage):
    """kafka-topics, the console producer and kcat write, kill -9 twice, restart: both readers find each record once."""
    with stage.node() as node:
        java(stage, "TopicCommand", "--create", "--topic", "first", "--partitions", 3, bootstrap=node.bootstrap)
        bounds = ("enable.idempotence=true", "acks=all", "delivery.timeout.ms=120000", "request.timeout.ms=5000")
        console = java_tool(
            f"{TOOLS}.ConsoleProducer",
            *("--bootstrap-server", node.bootstrap, "--topic", "first"),
            *(word for each in bounds for word in ("--command-property", each)),
        )
        # kcat ends as soon as no broker answers: it writes while there is one. The console producer goes on.
        writer = subprocess.Popen(console, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        typing = threading.Thread(target=type_lines, args=(writer, "java"))
        try:
            typing.start()
            for turn in range(3):
                lines = "".join(f"c-{turn * LINES + n}\n" for n in range(LINES))
                kcat(stage, "-P", "-t", "first", "-X", "enable.idempotence=true", given=lines, bootstrap=node.bootstrap)
                time.sleep(1)
                if turn < 2:
                    node.kill()
                    node.start()
            typing.join()
            assert writer.wait(120) == 0, "the console producer gave up"
        finally:
            writer.kill()
            writer.wait()
        given = sorted([f"java-{n}" for n in range(LINES)] + [f"c-{n}" for n in range(3 * LINES)])
        found = consume(stage, "first", len(given), "--from-beginning", bootstrap=node.bootstrap)
        assert sorted(found) == given
        again = []
        until(lambda: again.append(kcat(stage, "-C", "-e", "-q", "-t", "first", bootstrap=node.bootstrap)) or again[-1])
        assert sorted(again[-1].split()) == given


def type_lines(writer, name):
    """About five seconds of lines, so that they are on their way whenever the node dies."""
    for n in range(LINES):
        writer.stdin.write(f"{name}-{n}\n")
        if n % 20 == 0:
            writer.stdin.flush()
            time.sleep(0.04)
    writer.stdin.close()
