"""Which versions of which APIs this broker offers, and how it answers those that ask.

A broker offers an API only if it has a handler for it: `offered` joins the handlers there are with what the codec
speaks, so the list cannot promise what nobody answers. `UP_TO` holds back versions that the codec could read but whose
meaning is not served here, each with its reason.
"""

from collections.abc import Iterable, Mapping

from runnel.codec.apis import API_VERSIONS, APIS

PRODUCE = 0
# Kafka 4 lists these versions of Produce because old librdkafka wants to see them, and refuses them when they are used.
PRODUCE_REFUSED_UP_TO = 2

UP_TO: Mapping[int, int] = {
    22: 5,  # InitProducerId 6: two-phase commit, which Kafka itself has not released
}

Versions = Mapping[int, tuple[int, int]]


def offered(handled: Iterable[int]) -> Versions:
    """First and last version by API key, in the order of the keys, for the APIs that have a handler."""
    found = {}
    for key in sorted(set(handled)):
        api = APIS[key]
        found[key] = (api.first, min(api.last, UP_TO.get(key, api.last)))
    return found


def speaks(versions: Versions, api_key: int, version: int) -> bool:
    """Whether a request may be decoded and handled.

    What is not spoken closes the connection. Two are answered with UNSUPPORTED_VERSION instead: ApiVersions from the
    future, and Produce in the versions that are only listed.
    """
    first, last = versions.get(api_key, (0, -1))
    return first <= version <= last and not (api_key == PRODUCE and version <= PRODUCE_REFUSED_UP_TO)


def answer_version(versions: Versions, version: int) -> int:
    """The version in which to answer ApiVersions: a client from the future is answered in version 0."""
    return version if speaks(versions, API_VERSIONS, version) else 0
