"""The scenarios of the simulated cluster, and the command that runs them.

Scenarios may use every floor below; the machinery they run on is `runnel.world.simulation`.

objects   clients write objects through a faulty store
messages  nodes talk over the simulated network
idle      nothing happens for a hundred hours
services  ledgers, as nodes see them
lake      a bucket, a ledger and engines around them: what engine, Kafka and HTTP scenarios are built from
witness   knows what became of every entry, and judges at once
promises  what writers were told and readers saw, and streams held against it
door      the plainest door to an engine; engine_work: those who write and read through it
engine    engines under faults; engine_planted: with a bug each, for the checkers
http      Durable Streams under faults; http_work: the door and its clients; http_planted: with a bug each
groups    consumer groups under faults; groups_work: their members; groups_planted: with a bug each
planted   scenarios that must fail, so that finding and replaying a bug can itself be tested
command   `runnel sim`
watching  how a run is shown
"""

from runnel.simulated.command import main

__all__ = ["main"]
