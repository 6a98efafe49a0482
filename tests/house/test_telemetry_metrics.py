import pytest

from runnel.world.telemetry import Health, Metrics
from runnel.world.telemetry.metrics import LABELLED_MAX


def test_metrics_are_rendered_as_prometheus_text():
    metrics = Metrics()
    metrics.counter("runnel_b_total", "Things done.").add(3)
    metrics.gauge("runnel_a", "Things there.", read=lambda: 1.5)
    family = metrics.histograms("runnel_wait_seconds", "Waiting.", ("door",), bounds=(0.1, 1.0))
    family.at("kafka").observe(0.1)
    family.at("kafka").observe(0.5)
    family.at("kafka").observe(7)
    assert metrics.render() == (
        "# HELP runnel_a Things there.\n"
        "# TYPE runnel_a gauge\n"
        "runnel_a 1.5\n"
        "# HELP runnel_b_total Things done.\n"
        "# TYPE runnel_b_total counter\n"
        "runnel_b_total 3\n"
        "# HELP runnel_wait_seconds Waiting.\n"
        "# TYPE runnel_wait_seconds histogram\n"
        'runnel_wait_seconds_bucket{door="kafka",le="0.1"} 1\n'
        'runnel_wait_seconds_bucket{door="kafka",le="1"} 2\n'
        'runnel_wait_seconds_bucket{door="kafka",le="+Inf"} 3\n'
        'runnel_wait_seconds_sum{door="kafka"} 7.6\n'
        'runnel_wait_seconds_count{door="kafka"} 3\n'
    )


def test_asking_twice_for_a_name_gives_the_same_instrument():
    metrics = Metrics()
    metrics.counter("runnel_x_total", "X.").add()
    assert metrics.counter("runnel_x_total", "X.").value == 1


def test_one_name_cannot_be_two_kinds():
    metrics = Metrics()
    metrics.gauge("runnel_x_total", "X.")
    with pytest.raises(AssertionError, match="is a gauge"):
        metrics.counter("runnel_x_total", "X.")


def test_label_values_are_escaped():
    metrics = Metrics()
    metrics.gauges("runnel_x", "X.", ("name",)).at('a"b\\c\nd').set(1)
    assert r'runnel_x{name="a\"b\\c\nd"} 1' in metrics.render()


def test_a_family_stops_growing_and_counts_the_rest_together():
    family = Metrics().counters("runnel_x_total", "X.", ("name",))
    for number in range(LABELLED_MAX + 50):
        family.at(str(number)).add()
    lines = list(family.lines())
    assert len(lines) == 2 + LABELLED_MAX + 1
    assert lines[-1] == 'runnel_x_total{name="other"} 50'


def test_a_node_is_ready_between_its_start_and_its_end():
    health = Health()
    assert health.alive().good
    assert health.ready().text() == "node: the node is starting\n"
    health.started()
    assert health.ready().text() == "ok\n"
    health.draining()
    assert not health.ready().good


def test_a_check_says_why_a_node_is_not_ready_and_a_vital_one_why_it_should_be_restarted():
    health = Health()
    health.started()
    health.require("ledger", lambda: "no answer for 7 s")
    assert health.alive().good
    assert health.ready().text() == "ledger: no answer for 7 s\n"
    health.vital("flush", lambda: "task died")
    assert not health.alive().good
    health.forget("flush")
    assert health.alive().good
