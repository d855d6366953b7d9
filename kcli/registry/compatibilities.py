"""/compatibility: whether a schema is compatible with a version, or with the versions that the subject's level names.
Nothing is registered."""

from __future__ import annotations

from collections.abc import Sequence

from kcli.registry import errors, lookups, names, settings
from kcli.registry.calls import Call, version_id
from kcli.registry.checking import incompatibilities
from kcli.registry.drafts import Draft
from kcli.registry.errors import InvalidSchemaRefused
from kcli.registry.records import StoredSchema
from kcli.registry.views import requested
from kcli.service.messages import Answer


def check_version(call: Call, subject: str, version: str) -> Answer:
    """Compare a schema with one version; it is compatible if the request names the latest and there is none. Errors:
    40402, 42201, 42202."""
    draft = requested(call, subject, "testCompatibilityBySubjectName.request")
    number = version_id(version)
    found = call.image.schema(names.normalize(subject), number)
    if found is None and number != lookups.LATEST:
        raise errors.version_not_found(number)
    return _answer(call, draft, [] if found is None else [found])


def check_subject(call: Call, subject: str) -> Answer:
    """Compare a schema with the versions that the subject's level names. Errors: 42201."""
    draft = requested(call, subject, "testCompatibilityForSubject.request")
    return _answer(call, draft, [each for each in call.image.versions(draft.subject) if not each.deleted])


def _answer(call: Call, draft: Draft, versions: Sequence[StoredSchema]) -> Answer:
    verbose = call.flag("verbose")
    try:
        messages = _messages(call, draft, versions)
    except InvalidSchemaRefused as error:
        if not verbose:
            raise
        messages = [error.message]
    answer: dict[str, object] = {"is_compatible": not messages}
    return call.answer({**answer, "messages": messages} if verbose else answer)


def _messages(call: Call, draft: Draft, versions: Sequence[StoredSchema]) -> list[str]:
    config = settings.config_in_scope(call.image, draft.subject, call.limits.default_compatibility)
    normalize = call.flag("normalize") or bool(config.get("normalize"))
    is_new = config.get("validateNewSchemas") is not False
    new, parsed = lookups.canonical(call.image, draft, is_new=is_new, normalize=normalize)
    if parsed is None:
        raise InvalidSchemaRefused("Empty schema")
    return incompatibilities(call.image, config, new, parsed, versions)
