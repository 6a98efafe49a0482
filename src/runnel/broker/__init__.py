"""The Kafka door.

server      a listener and its connections: cut, decode, hand to the handler, encode
connection  bytes become requests, answers leave in the order of the requests
call        one request on its way to its answer, and the client that sent it
arenas      recycled memory that bytes from the network land in
limits      every bound
broker      what every handler is given
catalog     from names to streams: the only place that looks up topics and partitions
groups/     consumer groups: their members and their offsets
routing     who is named as leader of a partition, as coordinator of a group
problems    errors of the house in Kafka's words
sessions    what Fetch clients have told before, so that they need not tell it again
unsent      memory of answers that slow readers have not taken yet
alarms      deadlines of waiting requests, with one timer for all
versions    which versions of which APIs are offered
handlers/   one file per family of APIs

To add an API: write `handlers/<family>.py` with a function

    def handlers(broker: Broker) -> Mapping[int, Handler]:

that gives a handler by API key, and put the module into `FAMILIES` of `handlers/__init__.py`. What has a handler is
offered in ApiVersions, in all versions that the codec speaks; hold some back in `versions.UP_TO`. A handler takes a
`Call` (see call.py: `call.request` is decoded, `call.version`, `call.client`) and fits on a screen: decide, act, answer.
It gives back a response, or a coroutine that will, or None and calls `call.answer(response)` later from any callback
(no task, no future): the way for what is frequent or waits. Fields that a version lacks are ignored when encoding, so a
handler seldom looks at the version. A family with state makes an object in `handlers(broker)` and hands out its
methods; what keeps clients waiting (a group's rebalance, a long poll) uses `broker.alarms` for deadlines and puts a
function into `broker.when_draining` that answers everyone. Background work goes through `broker.world.tasks`.
Nothing about topics is read from the engine directly but through `broker.catalog`, nothing about nodes but through
`broker.routing`. A `RunnelError` that leaves a handler becomes a top-level error code where the response has one;
otherwise the connection is closed, so catch what a partition's or group's own error code can say (`problems.code_of`).
"""
