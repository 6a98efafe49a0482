"""A whole cluster in one thread, on virtual time, from one seed.

process   what can be killed, paused and counted
loop      the event loop: virtual time, one order, nothing from outside
network   hosts, connections, delays, cuts
nodes     simulated nodes: what they are given, how they die and come back
portal    services outside the nodes, called across a border that a kill does not cross
trace     what happened, in order, with a running hash
faults    kills, pauses, partitions, skew: drawn from the seed or scripted
scenario  what a scenario is; the register of their names
harness   runs a scenario with a seed
"""
