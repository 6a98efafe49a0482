"""What is checked of simulated schema registries: each check catches the bug that is planted for it."""

import re

import pytest

from runnel.simulated import schemas_planted
from runnel.world.simulation.harness import simulate
from runnel.world.simulation.scenario import scenario_named

SEEDS_MAX = 20


@pytest.mark.parametrize("name", schemas_planted.FOUND_BY)
def test_a_planted_bug_is_found(name):
    outcomes = (simulate(scenario_named(name), seed) for seed in range(1, SEEDS_MAX + 1))
    found = next((outcome.violation for outcome in outcomes if not outcome.passed), None)
    assert found is not None, f"{SEEDS_MAX} seeds passed"
    assert re.search(schemas_planted.FOUND_BY[name], found)


def test_every_planted_scenario_says_how_it_is_found():
    made = {name.replace("_", "-") for name in vars(schemas_planted) if name.startswith("planted_")}
    assert made == set(schemas_planted.FOUND_BY)
