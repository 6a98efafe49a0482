"""What is checked of simulated groups: each check catches the bug that is planted for it."""

import re

import pytest

from runnel.simulated import groups_planted
from runnel.world.simulation.harness import simulate
from runnel.world.simulation.scenario import scenario_named

SEEDS_MAX = 20


@pytest.mark.parametrize("name", groups_planted.FOUND_BY)
def test_a_planted_bug_is_found(name):
    outcomes = (simulate(scenario_named(name), seed) for seed in range(1, SEEDS_MAX + 1))
    found = next((outcome.violation for outcome in outcomes if not outcome.passed), None)
    assert found is not None, f"{SEEDS_MAX} seeds passed"
    assert re.search(groups_planted.FOUND_BY[name], found)


def test_every_planted_scenario_says_how_it_is_found():
    made = {name.replace("_", "-") for name in vars(groups_planted) if name.startswith("planted_")}
    assert made == set(groups_planted.FOUND_BY)
