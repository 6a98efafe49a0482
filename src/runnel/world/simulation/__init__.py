"""A whole cluster in one thread, on virtual time, from one seed.

process   what can be killed, paused and counted
loop      the event loop: virtual time, one order, nothing from outside
handles   its callbacks, tasks and futures
limits    where a run ends that does not end by itself
network   hosts, delays, cuts; connection and server: what asyncio sees of it
nodes     simulated nodes: what they are given, how they die and come back
portal    services outside the nodes, called across a border that a kill does not cross
trace     what happened, in order, with a running hash
faults    kills, pauses, partitions, skew: drawn from the seed or scripted
scenario  what a scenario is; the register of their names
harness   runs a scenario with a seed
"""
