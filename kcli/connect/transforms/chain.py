"""The transforms of a connector, in their order, each with the predicate on which it depends.

    transforms=a,b               the order
    transforms.a.type=...        the class; further options of the transform follow its prefix
    transforms.a.predicate=p     it transforms what p holds for (transforms.a.negate=true: what p does not hold for)
    predicates.p.type=...        the predicate

Source: org.apache.kafka.connect.runtime.TransformationChain, TransformationStage, ConnectorConfig.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kcli.connect.config.config_def import ConfigError, Type, parse_value
from kcli.connect.data.records import ConnectRecord
from kcli.connect.plugins import Plugins, PluginType
from kcli.connect.transforms.transform import Predicate, Transform

_IMPLICIT: Final = ("type", "plugin.version", "predicate", "negate")


class Link(NamedTuple):
    """A transform of a chain. negates: whether it transforms what the predicate does not hold for."""

    transform: Transform
    predicate: Predicate | None = None
    negates: bool = False

    @property
    def java_class(self) -> str:
        """The name of the transform's class."""
        return self.transform.CLASS

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """Return what becomes of a record. Raises what the transform or the predicate raises."""
        if self.predicate is not None and self.predicate.test(record) is self.negates:
            return record
        return self.transform.apply(record)


def chain_of(properties: Mapping[str, str], plugins: Plugins) -> tuple[Link, ...]:
    """Return the transforms of a connector's configuration. Raises ConfigError."""
    aliases = parse_value("transforms", properties.get("transforms"), Type.LIST)
    return tuple(_link(properties, plugins, alias) for alias in (aliases if isinstance(aliases, list) else ()))


def _link(properties: Mapping[str, str], plugins: Plugins, alias: str) -> Link:
    prefix = f"transforms.{alias}."
    transform: Transform = _made(properties, plugins, prefix, PluginType.TRANSFORMATION)
    name = properties.get(f"{prefix}predicate")
    if name is None:
        return Link(transform)
    predicate: Predicate = _made(properties, plugins, f"predicates.{name}.", PluginType.PREDICATE)
    return Link(transform, predicate, properties.get(f"{prefix}negate", "").strip().lower() == "true")


def _made(properties: Mapping[str, str], plugins: Plugins, prefix: str, kind: PluginType) -> Any:
    name = properties.get(f"{prefix}type")
    if name is None:
        raise ConfigError(f'Missing required configuration "{prefix}type" which has no default value.')
    found = plugins.named(name.strip(), kind)
    if len(found) != 1:
        raise ConfigError.of(f"{prefix}type", name, f"Class {name} could not be found.")
    own = {
        option.removeprefix(prefix): text
        for option, text in properties.items()
        if option.startswith(prefix) and option.removeprefix(prefix) not in _IMPLICIT
    }
    return found[0].load()(own)
