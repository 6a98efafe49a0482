"""Run the simulated cluster: many nodes, virtual time, faults, one seed."""

from runnel.simulated.command import main
from runnel.ui.cli.house import House


def run(words: list[str], _house: House) -> int:
    return main(words)
