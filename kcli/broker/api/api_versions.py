"""ApiVersions (18): what this broker speaks. The first request of every client.

v0 is the answer to a version that there is not yet: UNSUPPORTED_VERSION, and the client tries again with a known one.
v1 throttle time. v2 nothing new. v3 flexible; the client's name and version; features. v4 features from version 0 on.
KIP-35, KIP-511, KIP-584, KIP-1022.
"""

from __future__ import annotations

import string

from kcli.broker.api import BROKER_APIS, CONTROLLER_APIS
from kcli.broker.network.messages import Call, Entity, ErrorCode
from kcli.metadata.features import SUPPORTED_FEATURES
from kcli.metadata.image import KRAFT_VERSION

ALL_FEATURES_VERSION = 4
ALPHANUMERIC = frozenset(string.ascii_letters + string.digits)
OF_SOFTWARE = ALPHANUMERIC | {"-", "."}


def api_versions(call: Call) -> Entity:
    """Errors: UNSUPPORTED_VERSION; INVALID_REQUEST for a name or version of the client's software that is none."""
    is_controllers = call.listener in call.broker.config.controller_listener_names
    apis = tuple(
        call.new("ApiVersion", api_key=api.key, min_version=api.advertised_least, max_version=api.most)
        for api in (CONTROLLER_APIS if is_controllers else BROKER_APIS).values()
    )
    if call.request is None:
        return call.respond(error_code=ErrorCode.unsupported_version, api_keys=apis)
    for software in (call.get("client_software_name", "any"), call.get("client_software_version", "any")):
        if not _is_software(software):
            return call.respond(error_code=ErrorCode.invalid_request, api_keys=())
    image = call.broker.image
    return call.respond(
        error_code=ErrorCode.none,
        api_keys=apis,
        supported_features=tuple(
            call.new("SupportedFeatureKey", name=name, min_version=least, max_version=most)
            for name, (least, most) in SUPPORTED_FEATURES.items()
            if least > 0 or call.version >= ALL_FEATURES_VERSION
        ),
        finalized_features_epoch=image.features_epoch,
        finalized_features=tuple(
            call.new("FinalizedFeatureKey", name=name, min_version_level=level, max_version_level=level)
            for name, level in _finalized(call).items()
        ),
    )


def _is_software(text: str) -> bool:
    """Letters and digits, between them `-` and `.` too."""
    return text != "" and OF_SOFTWARE.issuperset(text) and ALPHANUMERIC.issuperset(text[0] + text[-1])


def _finalized(call: Call) -> dict[str, int]:
    """The features' levels; that of kraft.version is in the log's control records, and not among them at 0."""
    level = call.broker.metadata.kraft_version
    return {**call.broker.image.features, **({KRAFT_VERSION: level} if level else {})}
