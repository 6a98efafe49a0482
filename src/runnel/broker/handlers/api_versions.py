"""ApiVersions (18): what is offered here."""

import re
from collections.abc import Mapping

from runnel.broker.broker import Broker
from runnel.broker.call import Call, Handler
from runnel.codec.errors import ErrorCode
from runnel.codec.messages.api_versions import ApiVersion, ApiVersionsResponse

# KIP-511: what a client may call its software.
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")


def handlers(broker: Broker) -> Mapping[int, Handler]:
    def api_versions(call: Call) -> ApiVersionsResponse:
        request = call.request
        if call.version >= 3:
            names = (request.client_software_name, request.client_software_version)
            if not all(_SOFTWARE.fullmatch(name) for name in names):
                return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
            call.client.software, call.client.software_version = names
        return ApiVersionsResponse(
            api_keys=[
                ApiVersion(api_key=key, min_version=first, max_version=last)
                for key, (first, last) in broker.versions.items()
            ],
        )

    return {18: api_versions}
