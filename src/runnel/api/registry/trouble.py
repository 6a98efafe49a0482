"""Errors of the registry: an HTTP status, and the number and the words that Confluent's clients know."""

import json

from runnel.api.messages import Response
from runnel.errors import NotThere, Refused, RunnelError, Unavailable
from runnel.metadata.schemas import IdTaken, Referenced, ReferenceMissing, RegistryFull
from runnel.schemas.bounds import BadSchema
from runnel.schemas.levels import LEVELS


class Trouble(RunnelError):
    """A request that the registry answers with an error."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


def subject_not_found(subject: str) -> Trouble:
    return Trouble(404, 40401, f"Subject '{subject}' not found.")


def version_not_found(version: int | str) -> Trouble:
    return Trouble(404, 40402, f"Version {version} not found.")


def schema_not_found(what: object = "") -> Trouble:
    return Trouble(404, 40403, f"Schema {what} not found" if what != "" else "Schema not found")


def subject_soft_deleted(subject: str) -> Trouble:
    return Trouble(404, 40404, f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently")


def subject_not_soft_deleted(subject: str) -> Trouble:
    return Trouble(404, 40405, f"Subject '{subject}' was not deleted first before being permanently deleted")


def version_soft_deleted(subject: str, version: int) -> Trouble:
    return Trouble(
        404, 40406, f"Subject '{subject}' Version {version} was soft deleted. Set permanent=true to delete permanently"
    )


def version_not_soft_deleted(subject: str, version: int) -> Trouble:
    return Trouble(
        404, 40407, f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted"
    )


def level_not_configured(subject: str) -> Trouble:
    return Trouble(404, 40408, f"Subject '{subject}' does not have subject-level compatibility configured")


def mode_not_configured(subject: str) -> Trouble:
    return Trouble(404, 40409, f"Subject '{subject}' does not have subject-level mode configured")


def incompatible(subject: str, messages: list[str]) -> Trouble:
    details = ", ".join(messages)
    return Trouble(
        409,
        409,
        f'Schema being registered is incompatible with an earlier schema for subject "{subject}", details: [{details}]',
    )


def invalid_schema(why: str) -> Trouble:
    return Trouble(422, 42201, f"Invalid schema: {why}")


def invalid_version(version: str) -> Trouble:
    return Trouble(
        422,
        42202,
        f"The specified version '{version[:80]}' is not a valid version id. "
        'Allowed values are between [1, 2^31-1] and the string "latest"',
    )


def invalid_level() -> Trouble:
    known = ", ".join(level.lower() for level in LEVELS)
    return Trouble(422, 42203, f"Invalid compatibility level. Valid values are {known}")


def invalid_mode(modes: tuple[str, ...]) -> Trouble:
    return Trouble(422, 42204, f"Invalid mode. Valid values are {', '.join(modes)}")


def not_permitted(why: str) -> Trouble:
    return Trouble(422, 42205, why)


def reference_exists(why: str) -> Trouble:
    return Trouble(422, 42206, why)


def invalid_subject(subject: str) -> Trouble:
    return Trouble(422, 42208, f"The specified subject '{subject[:80]}' is not a valid subject.")


def too_large(why: str) -> Trouble:
    return Trouble(422, 42209, why)


def trouble_of(error: BaseException) -> Trouble:
    """Any error as the registry tells it."""
    match error:
        case Trouble():
            return error
        case BadSchema() | ReferenceMissing():
            return invalid_schema(str(error))
        case Referenced():
            return reference_exists(str(error))
        case IdTaken():
            return Trouble(422, 42207, str(error))
        case RegistryFull():
            return too_large(str(error))
        case NotThere():
            return Trouble(404, 404, str(error))
        case Refused():
            return Trouble(422, 422, str(error))
        case Unavailable():
            return Trouble(503, 50302, str(error))
        case RunnelError():
            return Trouble(500, 50001, str(error))
        case _:
            return Trouble(500, 500, "something went wrong inside the server")


def as_response(trouble: Trouble, content_type: str) -> Response:
    headers = {"content-type": content_type, "cache-control": "no-store"}
    if trouble.status == 503:
        headers["retry-after"] = "1"
    return Response(trouble.status, headers, json.dumps({"error_code": trouble.code, "message": str(trouble)}).encode())
