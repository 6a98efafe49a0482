"""Kafka's messages, one file per API: what `declare` makes of the protocol's names, types and versions.

Requests and responses are called as Kafka calls them, fields in snake case; the key of each API stands in its file's
first line. Nothing is imported here: `codec.apis` finds the file of an API when its first request comes.
`consumer_protocol` holds what members of classic groups put inside JoinGroup and SyncGroup.

The facts are those of Kafka 4.2. To take up a newer version of a message, add its fields with `since=`, raise `last`
here and in `codec.apis`; the test against the oracle says whether it is right.
"""
