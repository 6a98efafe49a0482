"""Where the cluster is, and clients for it.

A command first sees whether anything listens there at all: librdkafka would go on trying for a long time without a
word. Its own log is kept quiet; what it says when it fails comes back as an error with the next step.
"""

import argparse
import logging
import socket
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runnel.errors import Refused, Unavailable
from runnel.settings import Address, Settings, described
from runnel.ui.cli.options import loaded_from

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Producer
    from confluent_kafka.admin import AdminClient

PATIENCE_SECONDS = 5.0
ANSWER_SECONDS = 30.0
"""How long one question to the cluster may take."""
EVERYWHERE = ("0.0.0.0", "::", "")  # noqa: S104  compared with, not listened at


def add_cluster(parser: argparse.ArgumentParser, *, in_json: str = "print JSON, for programs") -> None:
    """The options with which a command finds its cluster; `in_json` says what --json means to it."""
    group = parser.add_argument_group("cluster")
    knob = described(Settings)["bootstrap"]
    group.add_argument(
        knob.flag, metavar="HOST:PORT", dest="knob_bootstrap", default=argparse.SUPPRESS, help=knob.knob.sentence
    )
    group.add_argument(
        "-X",
        "--client",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a property of librdkafka, such as security.protocol=SASL_SSL; may be repeated",
    )
    group.add_argument("--client-file", metavar="FILE", help="a file of such properties, one NAME=VALUE a line")
    group.add_argument("--config", metavar="FILE", help="a TOML file with settings; also RUNNEL_CONFIG")
    parser.add_argument("--json", action="store_true", help=in_json)


@dataclass
class Cluster:
    """A Kafka cluster as a command sees it."""

    bootstrap: str
    properties: dict[str, str]
    said: list[str] = field(default_factory=list)
    """What librdkafka had to say, the newest last: the reason behind an error that has none."""
    waits: bool = False
    """The command goes on waiting when the cluster is away, and says so once."""
    _away: bool = False

    def common(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.bootstrap,
            "client.id": "runnel",
            "reconnect.backoff.max.ms": 1000,
            "logger": _quiet(),
            "error_cb": self._heard,
            **self.properties,
        }

    def admin(self) -> "AdminClient":
        from confluent_kafka.admin import AdminClient

        client: AdminClient = _made(AdminClient, self.common())
        return client

    def producer(self, **properties: Any) -> "Producer":
        from confluent_kafka import Producer

        client: Producer = _made(Producer, _named(properties) | self.common())
        return client

    def consumer(self, **properties: Any) -> "Consumer":
        from confluent_kafka import Consumer

        client: Consumer = _made(Consumer, _named(properties) | self.common())
        return client

    def _heard(self, error: Any) -> None:
        from confluent_kafka import KafkaError

        self.said = [*self.said[-4:], str(error.str())]
        if self.waits and not self._away and error.code() == KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001  librdkafka's own codes begin like this
            self._away = True
            reason = self.said[-2] if len(self.said) > 1 else self.said[-1]
            print(
                f"runnel: the cluster at {self.bootstrap} does not answer, waiting for it ({reason})", file=sys.stderr
            )

    def answered(self) -> None:
        """What was said before has no meaning any more."""
        if self.said:
            self.said = []
        self._away = False


def cluster_from(args: argparse.Namespace) -> Cluster:
    """The cluster that options, environment and file name together, once something listens there."""
    settings = loaded_from(args).settings
    properties = _properties(args.client_file, args.client)
    bootstrap = properties.pop("bootstrap.servers", "") or settings.bootstrap or _own(settings)
    if settings.zone:
        properties.setdefault("client.id", f"runnel,zone_id={settings.zone}")
        properties.setdefault("client.rack", settings.zone)
    _knock(bootstrap)
    return Cluster(bootstrap, properties)


def _own(settings: Settings) -> str:
    """Where a node with these settings would listen."""
    address = Address.parse(settings.kafka)
    if address.port == 0:
        raise Refused("the setting 'kafka' lets the system choose a port: say where the cluster is with --bootstrap")
    return str(Address("127.0.0.1" if address.host in EVERYWHERE else address.host, address.port))


def _properties(file: str | None, said: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    lines = [(f"--client {text}", text) for text in said]
    if file is not None:
        try:
            text = Path(file).read_text(encoding="utf-8")
        except OSError as error:
            raise Refused(f"client file '{file}' cannot be read: {error.strerror}") from None
        wanted = [line.strip() for line in text.splitlines()]
        lines = [(f"client file '{file}'", line) for line in wanted if line and line[0] not in "#!"] + lines
    for where, line in lines:
        name, sign, value = line.partition("=")
        if not sign or not name.strip():
            raise Refused(f"{where}: {line!r} is not NAME=VALUE")
        found[name.strip()] = value.strip()
    return found


def _knock(bootstrap: str) -> None:
    reason = "no address"
    for text in filter(None, (part.strip() for part in bootstrap.split(","))):
        address = Address.parse(text.rpartition("://")[2])
        try:
            socket.create_connection((address.host, address.port), PATIENCE_SECONDS).close()
        except OSError as error:
            reason = (error.strerror or str(error) or "no answer").lower()
        else:
            return
    raise Unavailable(
        f"no Kafka cluster at {bootstrap} ({reason}): start a node with 'runnel serve', "
        "or say where one is with --bootstrap HOST:PORT"
    )


def _made(kind: Any, properties: dict[str, Any]) -> Any:
    from confluent_kafka import KafkaException

    try:
        return kind(properties)
    except KafkaException as error:
        raise Refused(f"librdkafka takes no such property: {error.args[0].str()}; see --client") from None


def _named(properties: dict[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "."): value for name, value in properties.items()}


def _quiet() -> logging.Logger:
    logger = logging.Logger("librdkafka")  # noqa: LOG001  no part of the tree of loggers: nobody shall hear it
    logger.addHandler(logging.NullHandler())
    return logger
