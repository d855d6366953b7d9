"""The transforms and predicates by the names of Kafka's classes."""

from __future__ import annotations

from typing import Final

from kcli.connect.plugins import KAFKA_VERSION, Plugin, PluginType
from kcli.connect.transforms.transform import PACKAGE

_ROOM: Final = "kcli.connect.transforms"
_OF_BOTH: Final = {
    "Cast": "casting",
    "ExtractField": "extracting",
    "Flatten": "flattening",
    "HeaderFrom": "headers",
    "HoistField": "hoisting",
    "InsertField": "inserting",
    "MaskField": "masking",
    "ReplaceField": "replacing",
    "SetSchemaMetadata": "metadata",
    "TimestampConverter": "timestamps",
}
_OF_RECORDS: Final = {
    "DropHeaders": "headers",
    "Filter": "routing",
    "InsertHeader": "headers",
    "RegexRouter": "routing",
    "TimestampRouter": "routing",
    "ValueToKey": "value_to_key",
}


def _plugin(name: str, kind: PluginType, module: str, python_name: str) -> tuple[str, Plugin]:
    return name, Plugin(name, kind, KAFKA_VERSION, f"{_ROOM}.{module}:{python_name}")


TRANSFORMS: Final = dict(
    [
        _plugin(f"{PACKAGE}.{name}${side}", PluginType.TRANSFORMATION, module, name + side)
        for name, module in _OF_BOTH.items()
        for side in ("Key", "Value")
    ]
    + [_plugin(f"{PACKAGE}.{name}", PluginType.TRANSFORMATION, module, name) for name, module in _OF_RECORDS.items()]
)
"""The transforms."""
PREDICATES: Final = dict(
    _plugin(f"{PACKAGE}.predicates.{name}", PluginType.PREDICATE, "predicates", name)
    for name in ("HasHeaderKey", "RecordIsTombstone", "TopicNameMatches")
)
"""The predicates."""
