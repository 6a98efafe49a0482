"""The engine: streams without a server. Both doors stand on it, and a notebook can.

engine      the whole of it: topics, appends, reads, waiting
cluster     what makes a bucket and a ledger one cluster
shards      the followers of this node
topics      topics across the root shard and the shards of their streams
membership  a node among others: number, lease, who is there
rendezvous  who serves a shard (pure)
upkeep      what is done now and then: sweep, silent producers, half-deleted topics
retention   what is older or more than a topic keeps becomes unreadable
checkup     what a doctor finds in bucket and ledger
sweep       objects that nothing refers to go, others never
"""

from runnel.engine.engine import Engine, EngineLimits

__all__ = ["Engine", "EngineLimits"]
