"""ApiVersions (18): the APIs and versions that this node speaks. The first request of every client.

A request of an unknown version gets a v0 response with UNSUPPORTED_VERSION and the versions of this API, after which
the client tries again with a known version. v1 throttle time. v2 nothing new. v3 flexible; the client's name and
version; features. v4 features whose lowest version is 0. KIP-35, KIP-511, KIP-584, KIP-1022.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.broker import Broker
from kcli.broker.dispatch.inputs import Inputs
from kcli.broker.wire.apis import BROKER_APIS, CONTROLLER_APIS
from kcli.broker.wire.client_software import names_software
from kcli.broker.wire.messages import API_VERSIONS
from kcli.metadata.features import SUPPORTED_FEATURES
from kcli.metadata.image import KRAFT_VERSION
from kcli.protocol.error_code import ErrorCode

if TYPE_CHECKING:
    from kcli.broker.wire.types import api_versions as types

ALL_FEATURES_VERSION = 4


def api_versions(broker: Broker, call: types.ApiVersionsCall) -> types.ApiVersionsResponse:
    """Errors: UNSUPPORTED_VERSION; INVALID_REQUEST for a malformed name or version of the client's software."""
    is_controllers = call.listener in broker.config.controller_listener_names
    apis = tuple(
        call.new("ApiVersion", api_key=api.key, min_version=api.advertised_least, max_version=api.most)
        for api in (CONTROLLER_APIS if is_controllers else BROKER_APIS).values()
    )
    if call.request is None:
        own = tuple(each for each in apis if each.api_key == API_VERSIONS)
        return call.respond(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=own)
    if not names_software(call.request):
        return call.respond(error_code=ErrorCode.INVALID_REQUEST, api_keys=())
    image = broker.image
    return call.respond(
        error_code=ErrorCode.NONE,
        api_keys=apis,
        supported_features=tuple(
            call.new("SupportedFeatureKey", name=name, min_version=least, max_version=most)
            for name, (least, most) in SUPPORTED_FEATURES.items()
            if least > 0 or call.version >= ALL_FEATURES_VERSION
        ),
        finalized_features_epoch=image.features_epoch,
        finalized_features=tuple(
            call.new("FinalizedFeatureKey", name=name, min_version_level=level, max_version_level=level)
            for name, level in _finalized(broker).items()
        ),
    )


def kept_state(broker: Broker, _listener: str) -> tuple[int, int, int]:
    """Return the state of the node on which a cached response (dispatch/kept.py) depends: the version of the metadata
    image, the epoch of the features, and the level of kraft.version."""
    return broker.image.version, broker.image.features_epoch, broker.metadata.kraft_version


def inputs(broker: Broker, call: types.ApiVersionsCall) -> Inputs:
    """Return what the response depends on: whether the request's version is known, whether the request has a valid name
    and version of the client's software, and the features."""
    fields = call.request is not None, call.request is None or names_software(call.request)
    return Inputs(fields, kept_state(broker, call.listener))


def _finalized(broker: Broker) -> dict[str, int]:
    """Return finalized feature -> its level. The level of kraft.version comes from the control records of the metadata
    log. Features of level 0 are left out."""
    level = broker.metadata.kraft_version
    return {**broker.image.features, **({KRAFT_VERSION: level} if level else {})}
