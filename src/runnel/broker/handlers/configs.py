"""DescribeConfigs (32), AlterConfigs (33), IncrementalAlterConfigs (44), ListConfigResources (74).

Topics have settings of their own; their defaults can be changed for the whole cluster, under Kafka's names for brokers
and with the empty broker name. Everything else that a node is started with can be read and not changed from here.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from runnel.broker.broker import Broker
from runnel.broker.call import Call, Handler
from runnel.broker.catalog import why_not_a_name
from runnel.broker.configs import (
    Change,
    Entry,
    Operation,
    Resource,
    Source,
    altered,
    broker_entries,
    cluster_entries,
    cluster_setting_of,
    difference,
    topic_entries,
)
from runnel.broker.problems import code_of
from runnel.codec.errors import ErrorCode
from runnel.codec.messages.alter_configs import AlterConfigsResourceResponse as ReplacedResult
from runnel.codec.messages.alter_configs import AlterConfigsResponse
from runnel.codec.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from runnel.codec.messages.incremental_alter_configs import AlterConfigsResourceResponse as AlteredResult
from runnel.codec.messages.incremental_alter_configs import IncrementalAlterConfigsResponse
from runnel.codec.messages.list_config_resources import ConfigResource, ListConfigResourcesResponse
from runnel.errors import Fenced, NotThere, Refused, RunnelError
from runnel.metadata.topics import Topic
from runnel.metadata.updates import SetSettings
from runnel.model import ROOT

TRIES = 5
"""Settings of a topic that someone else changes at the same time are read and changed again."""
_LISTED = (Resource.TOPIC, Resource.BROKER, Resource.BROKER_LOGGER, Resource.CLIENT_METRICS, Resource.GROUP)


class Unwanted(Refused):
    """As `Refused`, with the error code that Kafka has for it."""

    def __init__(self, code: ErrorCode, says: str) -> None:
        super().__init__(says)
        self.code = code


def handlers(broker: Broker) -> Mapping[int, Handler]:
    async def describe_configs(call: Call) -> DescribeConfigsResponse:
        request = call.request
        await _refresh(broker)
        results = []
        for resource in request.resources:
            result = DescribeConfigsResult(
                resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=None
            )
            try:
                wanted = resource.configuration_keys
                result.configs = [
                    _told(entry, synonyms=request.include_synonyms, documentation=request.include_documentation)
                    for entry in _entries(broker, resource.resource_type, resource.resource_name)
                    if wanted is None or not len(wanted) or entry.name in wanted
                ]
            except RunnelError as error:
                result.error_code, result.error_message = _code_of(error), str(error)
            results.append(result)
        return DescribeConfigsResponse(results=results)

    async def alter_configs(call: Call) -> AlterConfigsResponse:
        def changes(resource: Any) -> tuple[Sequence[Change], bool]:
            return [(each.name, Operation.SET, each.value) for each in resource.configs], True

        return AlterConfigsResponse(responses=await _alter_all(broker, call.request, changes, ReplacedResult))

    async def incremental_alter_configs(call: Call) -> IncrementalAlterConfigsResponse:
        def changes(resource: Any) -> tuple[Sequence[Change], bool]:
            return [(each.name, _operation(each.config_operation), each.value) for each in resource.configs], False

        return IncrementalAlterConfigsResponse(responses=await _alter_all(broker, call.request, changes, AlteredResult))

    def list_config_resources(call: Call) -> ListConfigResourcesResponse:
        # Version 0 asks for clients' metrics alone.
        kinds = [Resource.CLIENT_METRICS] if call.version == 0 else list(call.request.resource_types) or _LISTED
        if any(kind not in _LISTED for kind in kinds):
            return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        nodes = [str(each.node) for each in broker.routing.brokers()]
        names: dict[int, list[str]] = {
            Resource.TOPIC: [topic.name for topic in broker.catalog.topics()],
            Resource.BROKER: nodes,
            Resource.BROKER_LOGGER: nodes,
        }
        return ListConfigResourcesResponse(
            config_resources=[
                ConfigResource(resource_name=name, resource_type=kind) for kind in kinds for name in names.get(kind, ())
            ]
        )

    return {
        32: describe_configs,
        33: alter_configs,
        44: incremental_alter_configs,
        74: list_config_resources,
    }


# --- telling ----------------------------------------------------------------------------------------------------------


def _entries(broker: Broker, kind: int, name: str) -> Iterable[Entry]:
    cluster = broker.engine.root.settings
    match kind:
        case Resource.TOPIC:
            return topic_entries(_topic(broker, name).settings, cluster)
        case Resource.BROKER if not name:
            return cluster_entries(cluster)
        case Resource.BROKER:
            _check_is_me(broker, name)
            own = broker.routing.own
            return broker_entries(broker.settings, cluster, broker.routing.node_id, f"{own.host}:{own.port}")
        case Resource.BROKER_LOGGER:
            _check_is_me(broker, name)
            level = {"warning": "WARN"}.get(broker.settings.log_level, broker.settings.log_level.upper())
            says = "The least important events that this node logs; set with --log-level when it starts."
            return [Entry(name="root", value=level, source=Source.BROKER_LOGGER, says=says, read_only=True)]
        case Resource.CLIENT_METRICS | Resource.GROUP:
            return []
        case _:
            raise Unwanted(ErrorCode.INVALID_REQUEST, f"there are no settings of things of type {kind}")


def _told(entry: Entry, *, synonyms: bool, documentation: bool) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=name, value=value, source=source) for name, value, source in entry.synonyms
        ]
        if synonyms
        else [],
        config_type=entry.kind.value,
        documentation=entry.says if documentation else None,
    )


def _topic(broker: Broker, name: str) -> Topic:
    topic = broker.catalog.topic(name)
    if topic is None:
        why = why_not_a_name(name)
        if why is not None:
            raise Unwanted(ErrorCode.INVALID_TOPIC_EXCEPTION, why)
        raise NotThere(f"there is no topic '{name}'")
    return topic


def _check_is_me(broker: Broker, name: str) -> None:
    me = broker.routing.node_id
    if name != str(me):
        raise Unwanted(ErrorCode.INVALID_REQUEST, f"this is broker {me}: ask it for its own settings, not '{name}'")


# --- changing ---------------------------------------------------------------------------------------------------------


async def _alter_all(
    broker: Broker,
    request: Any,
    changes_of: Callable[[Any], tuple[Sequence[Change], bool]],
    result: Callable[..., Any],
) -> list[Any]:
    named = Counter((each.resource_type, each.resource_name) for each in request.resources)
    await _refresh(broker)
    results = []
    for resource in request.resources:
        about = {"resource_type": resource.resource_type, "resource_name": resource.resource_name}
        try:
            if named[resource.resource_type, resource.resource_name] > 1:
                raise Unwanted(ErrorCode.INVALID_REQUEST, "the resource stands in the request more than once")
            changes, replaces = changes_of(resource)
            _check_changes(changes)
            alter = _altering(broker, resource.resource_type, resource.resource_name)
            await alter(changes, replaces, request.validate_only)
            results.append(result(error_message=None, **about))
        except RunnelError as error:
            results.append(result(error_code=_code_of(error), error_message=str(error), **about))
    return results


def _operation(code: int) -> Operation:
    try:
        return Operation(code)
    except ValueError:
        raise Unwanted(
            ErrorCode.INVALID_REQUEST, f"there is no operation {code}: only SET (0) to SUBTRACT (3)"
        ) from None


def _check_changes(changes: Sequence[Change]) -> None:
    names = [name for name, _, _ in changes]
    if len(set(names)) < len(names):
        raise Unwanted(ErrorCode.INVALID_REQUEST, "a setting stands in the request more than once")
    for name, operation, value in changes:
        if value is None and operation is not Operation.DELETE:
            raise Unwanted(ErrorCode.INVALID_REQUEST, f"setting {name} has no value: delete it instead")


def _altering(broker: Broker, kind: int, name: str) -> Callable[[Sequence[Change], bool, bool], Awaitable[None]]:
    async def topic(changes: Sequence[Change], replaces: bool, validate_only: bool) -> None:
        for tries_left in reversed(range(TRIES)):
            now = _topic(broker, name)
            with_changes = _checked(altered, {} if replaces else now.settings, changes)
            put, drop = difference(now.settings, with_changes)
            if validate_only or not (put or drop):
                return
            try:
                await broker.engine.topics.alter(now, put, drop, only_this_version=True)
            except Fenced:
                if not tries_left:
                    raise
                await broker.catalog.refresh()
            else:
                return

    async def cluster(changes: Sequence[Change], replaces: bool, validate_only: bool) -> None:
        now = {key: value for key, value in broker.engine.root.settings.items() if not replaces}
        with_changes = _checked(altered, now, changes, cluster_setting_of)
        put, drop = difference(broker.engine.root.settings, with_changes)
        if not validate_only and (put or drop):
            await broker.engine.propose(ROOT, SetSettings(put, drop))

    match kind:
        case Resource.TOPIC:
            return topic
        case Resource.BROKER if not name:
            return cluster
        case Resource.BROKER:
            _check_is_me(broker, name)
            raise Unwanted(
                ErrorCode.INVALID_REQUEST,
                "a broker's own settings are given when it starts ('runnel serve --help'); defaults of topics are kept "
                "for the whole cluster: use the default entity (kafka-configs --entity-type brokers --entity-default)",
            )
        case Resource.BROKER_LOGGER:
            raise Unwanted(ErrorCode.INVALID_REQUEST, "log levels are set when a node starts: --log-level")
        case Resource.CLIENT_METRICS:
            raise Unwanted(ErrorCode.INVALID_REQUEST, "metrics of clients are not collected here")
        case Resource.GROUP:
            raise Unwanted(ErrorCode.INVALID_REQUEST, "groups have no settings of their own here")
        case _:
            raise Unwanted(ErrorCode.INVALID_REQUEST, f"there are no settings of things of type {kind}")


def _checked(work: Callable[..., dict[str, str]], *arguments: Any) -> dict[str, str]:
    """What is wrong with a setting has an error code of its own."""
    try:
        return work(*arguments)
    except Refused as error:
        raise Unwanted(ErrorCode.INVALID_CONFIG, str(error)) from None


def _code_of(error: RunnelError) -> ErrorCode:
    return error.code if isinstance(error, Unwanted) else code_of(error)


async def _refresh(broker: Broker) -> None:
    try:
        await broker.catalog.refresh()
    except RunnelError:
        return  # what is known here is told; a change finds out by itself
