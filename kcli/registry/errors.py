"""The refusals of the registry: the codes and messages of Confluent's registry, which clients show."""

from __future__ import annotations

from kcli.errors import KcliError
from kcli.registry.messages import Operation


class RestError(KcliError):
    """A refusal. status: the HTTP status. code: the `error_code`, which begins with three digits of an HTTP status."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


class InvalidSchemaRefused(RestError):
    """The refusal of an invalid schema: 42201."""

    def __init__(self, message: str) -> None:
        super().__init__(422, 42201, message)


def not_found() -> RestError:
    """Return the refusal of a path that the API does not have."""
    return RestError(404, 404, "HTTP 404 Not Found")


def not_supported(what: str) -> RestError:
    """Return the refusal of a part of Confluent's API that is not in its open edition."""
    return RestError(404, 404, f"HTTP 404 Not Found: {what} are not part of this registry")


def method_not_allowed() -> RestError:
    """Return the refusal of a method that a path does not have."""
    return RestError(405, 405, "HTTP 405 Method Not Allowed")


def not_acceptable() -> RestError:
    """Return the refusal of an Accept header whose media types the registry does not have."""
    return RestError(406, 406, "HTTP 406 Not Acceptable")


def unsupported_media_type() -> RestError:
    """Return the refusal of a body whose Content-Type is not JSON."""
    return RestError(415, 415, "HTTP 415 Unsupported Media Type")


def bad_request(message: str) -> RestError:
    """Return the refusal of a request that cannot be read."""
    return RestError(400, 400, message)


def missing_body(parameter: str) -> RestError:
    """Return the refusal of a request without a body. parameter: the name of the body's parameter in Confluent's
    registry, with its method."""
    return RestError(422, 422, f"{parameter} must not be null (was null)")


def too_large(size_max: int) -> RestError:
    """Return the refusal of a body of too many bytes."""
    return RestError(413, 413, f"The request's body is larger than {size_max:,} bytes")


def subject_not_found(subject: str | None) -> RestError:
    """Return the refusal of a subject that does not exist: 40401."""
    return RestError(404, 40401, f"Subject '{_shown(subject)}' not found.")


def version_not_found(version: int) -> RestError:
    """Return the refusal of a version that the subject does not have: 40402."""
    return RestError(404, 40402, f"Version {version} not found.")


def schema_not_found(which: int | str | None = None) -> RestError:
    """Return the refusal of a schema that does not exist: 40403. which: the id or the guid in the request."""
    return RestError(404, 40403, "Schema not found" if which is None else f"Schema {which} not found")


def subject_soft_deleted(subject: str) -> RestError:
    """Return the refusal to soft-delete a subject a second time: 40404."""
    return RestError(404, 40404, f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently")


def subject_not_soft_deleted(subject: str) -> RestError:
    """Return the refusal to delete a subject permanently that is not soft-deleted yet: 40405."""
    return RestError(404, 40405, f"Subject '{subject}' was not deleted first before being permanently deleted")


def version_soft_deleted(subject: str, version: int) -> RestError:
    """Return the refusal to soft-delete a version a second time: 40406."""
    message = f"Subject '{subject}' Version {version} was soft deleted.Set permanent=true to delete permanently"
    return RestError(404, 40406, message)


def version_not_soft_deleted(subject: str, version: int) -> RestError:
    """Return the refusal to delete a version permanently that is not soft-deleted yet: 40407."""
    message = f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted"
    return RestError(404, 40407, message)


def denied(operation: Operation, subject: str | None) -> RestError:
    """Return the refusal of an operation for which the user is not authorized: 40301. subject: None if the operation
    concerns all subjects or none."""
    where = "" if subject is None else f" on Subject: {subject}"
    return RestError(403, 40301, f"User is denied operation {operation.value}{where}")


def config_not_set(subject: str) -> RestError:
    """Return the refusal of a request for the compatibility level of a subject that has none of its own: 40408."""
    return RestError(404, 40408, f"Subject '{subject}' does not have subject-level compatibility configured")


def mode_not_set(subject: str | None) -> RestError:
    """Return the refusal of a request for the mode of a subject that has none of its own: 40409."""
    return RestError(404, 40409, f"Subject '{_shown(subject)}' does not have subject-level mode configured")


def incompatible(subject: str, details: list[str]) -> RestError:
    """Return the refusal of a schema that is incompatible by the subject's level. details: the messages, one a line."""
    listed = ", ".join(details)
    message = (
        f'Schema being registered is incompatible with an earlier schema for subject "{subject}", details: [{listed}]'
    )
    return RestError(409, 40901, message)


def invalid_version(version: str) -> RestError:
    """Return the refusal of a version that is neither a number in the allowed range nor "latest": 42202."""
    message = (
        f"The specified version '{version}' is not a valid version id. "
        'Allowed values are between [1, 2^31-1] and the string "latest"'
    )
    return RestError(422, 42202, message)


def invalid_level() -> RestError:
    """Return the refusal of an unknown compatibility level: 42203."""
    message = (
        "Invalid compatibility level. Valid values are none, backward, forward, full, "
        "backward_transitive, forward_transitive, and full_transitive"
    )
    return RestError(422, 42203, message)


def invalid_mode(message: str = "Invalid mode. Valid values are READWRITE, READONLY, IMPORT and FORWARD.") -> RestError:
    """Return the refusal of an unknown mode: 42204."""
    return RestError(422, 42204, message)


def not_permitted(message: str) -> RestError:
    """Return the refusal of an operation that the registry does not permit: 42205. message: the reason."""
    return RestError(422, 42205, message)


def read_only(subject: str | None, context: str) -> RestError:
    """Return the refusal of a write to a subject whose mode is read-only: 42205."""
    return not_permitted(f"Subject {_shown(subject)} in context {context} is in read-only mode")


def reference_exists(subject: str, version: int) -> RestError:
    """Return the refusal to delete a version to which other schemas refer: 42206."""
    key = f"{{magic=1,keytype=SCHEMA,subject={subject},version={version}}}"
    return RestError(422, 42206, f"One or more references exist to the schema {key}.")


def invalid_subject(subject: str) -> RestError:
    """Return the refusal of an invalid subject name: 42208."""
    return RestError(422, 42208, f"The specified subject '{subject}' is not a valid.")


def invalid_rule_set(message: str) -> RestError:
    """Return the refusal of an invalid rule set: 42210."""
    return RestError(422, 42210, message)


def context_not_empty(context: str) -> RestError:
    """Return the refusal to delete a context that has subjects: 42211."""
    return RestError(422, 42211, f"The specified context '{context}' is not empty.")


def _shown(subject: str | None) -> str:
    return "null" if subject is None else subject
