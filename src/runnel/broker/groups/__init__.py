"""Consumer groups: who reads what, and how far.

classic      a group of the classic protocol as a pure state machine: members join, a leader assigns, all sync
member       one member of a classic group; who a member is, seen from the network
subscriptions
             what consumers say of themselves inside the classic protocol
consumer     a group of the new protocol (KIP-848), as another: the broker assigns
mixed        members of both protocols in one group, while it changes from one to the other
reconcile    how one of its members gets from what it reads to what it should read
assignors    who should read what: range and uniform
topics       the topics that it chooses from, by name or by pattern
kept         what of a group outlives its coordinator, as bytes in the ledger
bounds       every bound
machine      what every kind of group has in common
held         one group in the hands of this broker: its machine, what waits for it, and how its changes are entered
coordinator  the groups of this broker: they are loaded, taken over, given up

*Whoever owns the shard of a group's name coordinates it.* Its machine lives in that broker's memory; what a killed
broker must not lose is in the group's shard: the generation, the members and their assignments, the committed offsets.

*A generation is entered before anyone hears of it.* A machine takes an event, changes, and says what to answer; if
something changed that must last (`dirty`), the answers are kept back until the ledger has it. So two brokers that both
think to coordinate a group can never both tell its members something: the second entry is fenced, and its sender drops
the group and sends its members to look for their coordinator again.

*A new coordinator takes the group over* with an entry of its own (`TakeGroup`) and goes on where the other stopped:
members with an assignment need not even notice, the others join again.
"""
