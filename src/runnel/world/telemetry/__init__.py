"""What a running node tells of itself: log events, metrics, health.

    log.py      structured events, one line each, as logfmt or JSON; secrets never
    metrics.py  counters, gauges and histograms, rendered as Prometheus text
    health.py   named checks: alive, ready, and why not

All three are plain objects in memory. Nothing here waits, opens a port or starts a thread.
"""

from runnel.world.telemetry.health import Health
from runnel.world.telemetry.log import Log, capture, configure, divert, get_log
from runnel.world.telemetry.metrics import Metrics

__all__ = ["Health", "Log", "Metrics", "capture", "configure", "divert", "get_log"]
