"""The commands, in the order in which `runnel --help` lists them. `runnel.ui.cli.<module>` holds each."""

from typing import NamedTuple


class Command(NamedTuple):
    """A command's name and its one-line help, known without importing it."""

    name: str
    sentence: str
    module: str = ""
    hands_on: bool = False
    """Everything after the name goes to the module's `run` as it is: the command reads its own options."""

    @property
    def place(self) -> str:
        return f"runnel.ui.cli.{self.module or self.name}"


COMMANDS = (
    Command("serve", "start a node"),
    Command("topic", "make, show, change and delete topics", module="kafka.topic"),
    Command("produce", "send lines as records to a topic", module="kafka.produce"),
    Command("consume", "print the records of topics", module="kafka.consume"),
    Command("group", "show, move and delete consumer groups", module="kafka.group"),
    Command("status", "brokers, zones, topics, and whether they are well", module="kafka.status"),
    Command("table", "turn streams into Iceberg and Delta tables, and see how far they are"),
    Command("config", "print every setting with its value and where it came from"),
    Command("doctor", "look for what would keep a node from running well"),
    Command("log", "look into write-ahead objects"),
    Command("sim", "run the simulated cluster", hands_on=True),
    Command("bench", "run benchmarks and compare their results", hands_on=True),
    Command("version", "print the version"),
)
