"""What is wrong with a connector's configuration, all errors at once, as `PUT /connector-plugins/NAME/config/validate`
answers and as a connector is refused that is created with errors.

    1. the options that every source or sink has, with those of its transforms and predicates
    2. the connector's own options, and what it finds wrong with several together
    3. the options of its own converters
    4. overrides of the properties of its clients

An option that both the connector and Connect have is the connector's. Source: AbstractHerder, ConnectorConfig, KIP-26,
KIP-66, KIP-458, KIP-585, KIP-891.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from kcli.connect.config import common
from kcli.connect.config.clients import Client, refusal
from kcli.connect.config.config_def import (
    REQUIRED,
    ConfigDef,
    ConfigError,
    ConfigKey,
    ConfigValue,
    Importance,
    IsClass,
    Type,
    Validator,
    Value,
    Width,
    parse_value,
    value_text,
    words,
)
from kcli.connect.config.versions import required
from kcli.connect.data.errors import ConnectError
from kcli.connect.plugins import Connector, Plugin, Plugins, PluginType
from kcli.connect.topics.configs import Properties
from kcli.connect.worker.errors import BadRequest, NotFound
from kcli.connect.worker.variables import Variables
from kcli.java.hashing import hash_map_order
from kcli.log.config_providers import HIDDEN, has_variable

VALIDATE: Final = "/connector-plugins/{connectorType}/config/validate"
CONNECTORS: Final = (PluginType.SINK, PluginType.SOURCE)
INTERFACES: Final = {
    PluginType.CONVERTER: ("Converter", "interface"),
    PluginType.HEADER_CONVERTER: ("HeaderConverter", "interface"),
    PluginType.TRANSFORMATION: ("Transformation", "interface"),
    PluginType.PREDICATE: ("Predicate", "interface"),
}
"""What Kafka's plug-ins of a type implement."""
VERSION: Final = ".plugin.version"
NOT_ASKED: Final = (
    "The connector does not implement the API required for preflight validation of exactly-once source support. Please "
    "consult the documentation for the connector to determine whether it supports exactly-once semantics, and then "
    'consider reconfiguring the connector to use the value "requested" for this property (which will disable this '
    "preflight check and allow the connector to be created)."
)
CONVERTERS: Final = {
    "header.converter": PluginType.HEADER_CONVERTER,
    "key.converter": PluginType.CONVERTER,
    "value.converter": PluginType.CONVERTER,
}
"""The options for converters, in the order in which their own options are checked."""
TRANSFORM: Final = ConfigDef(
    ConfigKey(
        "predicate",
        Type.STRING,
        None,
        Importance.MEDIUM,
        "The alias of the predicate that decides for which records the transform is applied.",
    ),
    ConfigKey(
        "negate",
        Type.BOOLEAN,
        "false",
        Importance.MEDIUM,
        "Whether it is applied to the other records.",
    ),
)
"""The options that every transform has."""


class Choices(NamedTuple):
    """A recommender of the same values in every configuration. is_hidden: whether the option is not shown."""

    choices: Sequence[Value]
    is_hidden: bool = False

    def values(self, name: str, parsed: Mapping[str, Value]) -> Sequence[Value]:  # noqa: ARG002
        """Return the values to choose from."""
        return self.choices

    def is_visible(self, name: str, parsed: Mapping[str, Value]) -> bool:  # noqa: ARG002
        """Return whether a form shows the option."""
        return not self.is_hidden


NO_PROVIDER: Final = "there are no config providers, which a worker's configuration has: its value is not known"


class ConfigInfos(NamedTuple):
    """Options with their values. name: of the connector's class, as the configuration has it."""

    name: str
    error_count: int
    groups: Sequence[str]
    configs: Sequence[tuple[ConfigKey | None, ConfigValue | None]]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of the REST API."""
        return {
            "name": self.name,
            "error_count": self.error_count,
            "groups": list(self.groups),
            "configs": [
                {
                    "definition": None if key is None else definition(key),
                    "value": None if value is None else _value(value),
                }
                for key, value in self.configs
            ],
        }

    def hidden(self, hide: Callable[[str], str], properties: Properties, resolved: Properties) -> ConfigInfos:
        """Return the same without secrets. hide: replaces the secrets in a text. properties: as they were written;
        resolved: with the values of config providers, of which no word of a list is shown, nor an alias of a transform
        or a predicate in the names of its options."""
        aliases = _secret_aliases(properties, resolved)

        def hiding(name: str) -> tuple[bool, Callable[[str], str]]:
            found = next((each for each in aliases if name.startswith(f"{each.option}.{each.alias}.")), None)
            if found is None:
                return False, hide
            return True, lambda text: hide(text.replace(found.alias, HIDDEN))

        def plain(value: ConfigValue) -> ConfigValue:
            is_named, without = hiding(value.name)
            text = value_text(value.value)
            written = properties.get(value.name) or ""
            if isinstance(value.value, list) and has_variable(written):
                text = ",".join(each if each in words(written) else HIDDEN for each in value.value)
            shown = value.value if text is None or without(text) == value_text(value.value) else without(text)
            name = without(value.name) if is_named else value.name
            return replace(value, name=name, value=shown, errors=[without(each) for each in value.errors])

        def unnamed(key: ConfigKey) -> ConfigKey:
            is_named, without = hiding(key.name)
            if not is_named:
                return key
            texts = {"name": key.name, "documentation": key.documentation, "group": key.group, "display": key.title}
            changed: dict[str, Any] = {name: text and without(text) for name, text in texts.items()}
            return replace(key, **changed, dependents=[without(each) for each in key.dependents])

        known = tuple(f"{each.option.capitalize()}: {each.alias}" for each in aliases)
        groups = [f"{each.partition(':')[0]}: {HIDDEN}" if each.startswith(known) else each for each in self.groups]
        configs = [
            (None if key is None else unnamed(key), None if value is None else plain(value))
            for key, value in self.configs
        ]
        return self._replace(groups=groups, configs=configs)

    def without_providers(self, properties: Properties) -> ConfigInfos:
        """Return the same where no config provider has replaced the variables of `properties`: an option whose text is
        wrong as it is written may be right with its value."""

        def plain(value: ConfigValue) -> ConfigValue:
            if not value.errors or not has_variable(properties.get(value.name) or ""):
                return value
            return replace(value, errors=[str(ConfigError.of(value.name, properties[value.name], NO_PROVIDER))])

        configs = [(key, None if value is None else plain(value)) for key, value in self.configs]
        count = sum(len(value.errors) for _, value in configs if value is not None)
        return self._replace(configs=configs, error_count=count)

    def refusal(self) -> str:
        """Return the text of the error with which a connector is refused."""
        errors = [text for _, value in self.configs if value is not None for text in value.errors]
        return "\n".join(
            [
                f"Connector configuration is invalid and contains the following {self.error_count} error(s):",
                *errors,
                f"You can also find the above list of errors at the endpoint `{VALIDATE}`",
            ]
        )


class _Alias(NamedTuple):
    """The alias of a transform or a predicate. option: transforms or predicates."""

    option: str
    alias: str


def _secret_aliases(properties: Properties, resolved: Properties) -> list[_Alias]:
    """Return the aliases that config providers have given, in whole or in part."""
    return [
        _Alias(option, alias)
        for option in ("transforms", "predicates")
        if has_variable(written := properties.get(option) or "")
        for alias in words(resolved.get(option) or "")
        if alias not in words(written)
    ]


def definition(key: ConfigKey) -> dict[str, Any]:
    """Return the JSON object of an option."""
    return {
        "name": key.name,
        "type": key.type,
        "required": key.is_required,
        "default_value": value_text(key.default_value),
        "importance": key.importance,
        "documentation": key.documentation,
        "group": key.group,
        "width": key.width,
        "display_name": key.title,
        "dependents": list(key.dependents),
        "order_in_group": key.order,
    }


class UnknownConnector(ConnectError):
    """A class name or alias that no connector has, or more than one."""


class Defaults(NamedTuple):
    """What a connector has of the worker. converters: by option. has_exactly_once: whether sources may write in
    transactions. offsets_topic: the topic of the offsets of sources; None for a file."""

    converters: Mapping[str, str] = {}
    group_id: str | None = None
    has_exactly_once: bool = False
    offsets_topic: str | None = None


def _value(value: ConfigValue) -> dict[str, Any]:
    return {
        "name": value.name,
        "value": value_text(value.value),
        "recommended_values": [value_text(each) for each in value.recommended],
        "errors": value.errors,
        "visible": value.is_visible,
    }


def made(plugins: Plugins, resolve: Variables, properties: Properties) -> Connector:
    """Return a connector with its configuration. resolve: reads the variables in it, from files. Raises
    UnknownConnector, and what the connector raises."""
    plugin = connector_named(plugins, properties.get("connector.class") or "")
    connector: Connector = plugin.load()(resolve(properties))
    return connector


def connector_named(plugins: Plugins, name: str) -> Plugin:
    """Return a connector's plug-in by its class or an alias. Raises UnknownConnector."""
    found = plugins.named(name, *CONNECTORS)
    if len(found) == 1:
        return found[0]
    listed = ", ".join(map(_described, sorted(plugins.of(*CONNECTORS), key=lambda each: each.name)))
    if found:
        raise UnknownConnector(
            f"More than one connector matches alias {name}. Please use full package and class name instead. "
            f"Classes found: {listed}"
        )
    raise UnknownConnector(
        f"Failed to find any class that implements Connector and which name matches {name}, "
        f"available connectors are: {listed}"
    )


def _described(plugin: Plugin) -> str:
    return (
        f"PluginDesc{{klass=class {plugin.name}, name='{plugin.name}', version='{plugin.version}', "
        f"encodedVersion={plugin.version}, type={plugin.type}, typeName='{plugin.type}', location='classpath'}}"
    )


def plugin_config(plugins: Plugins, name: str, version: str | None = None) -> list[dict[str, Any]]:
    """Return the options of a plug-in: its own, then those that every source or sink has. version: the versions that
    are asked for. Raises NotFound, BadRequest."""
    try:
        asked = required(version)
    except ConfigError:
        raise BadRequest(f"Invalid version specification: {version}") from None
    found = plugins.named(name, *PluginType)
    if not found:
        raise NotFound(f"Unknown plugin {name}.")
    refused = asked and asked.refusal(found[0].name, plugins.versions(found[0].name))
    if refused:
        raise BadRequest(refused)
    shared = {PluginType.SINK: common.SINK, PluginType.SOURCE: common.SOURCE}.get(found[0].type, ConfigDef())
    base = ConfigDef(
        *(_version_of(each, found) if each.name == "connector.plugin.version" else each for each in shared)
    )
    own: ConfigDef = found[0].load().config()
    return [definition(each) for each in {**own.keys, **(base.keys | own.keys)}.values()]


def validate(plugins: Plugins, properties: Properties, worker: Defaults) -> ConfigInfos:
    """Return what is wrong with the configuration of a connector. Raises BadRequest, UnknownConnector."""
    name = properties.get("connector.class")
    if name is None:
        shown = ", ".join(f"{key}={'null' if value is None else value}" for key, value in properties.items())
        raise BadRequest(f"Connector config {{{shown}}} contains no connector type")
    plugin = connector_named(plugins, name)
    try:
        asked = required(properties.get("connector.plugin.version"))
    except ConfigError as error:
        raise BadRequest(str(error)) from None
    refused = asked and asked.refusal(plugin.name, plugins.versions(plugin.name))
    if refused:
        return _of_no_version(plugin, properties, name, refused)
    is_sink = plugin.type is PluginType.SINK
    options = enriched(plugins, common.SINK if is_sink else common.SOURCE, properties, worker, plugin)
    values = options.validate(properties, plugins.has_class)
    connector = plugin.load()
    if is_sink:
        common.check_topics(properties, values)
        _check_group(properties, values, worker.group_id)
    else:
        _check_exactly_once(connector, properties, values, worker)
        topic = values["offsets.storage.topic"]
        if not topic.errors and topic.value not in (None, worker.offsets_topic):
            topic.errors.append(f"offsets.storage.topic {topic.value}: kcli keeps offsets in the worker's topic alone")
    for each in CONVERTERS:
        _check_version(plugins, properties, values, each)
    for key in [key for key, value in properties.items() if value is None]:
        null = values.setdefault(key, ConfigValue(key))
        null.errors.append("Null value can not be supplied as the configuration value.")
    own: ConfigDef = connector.config()
    own_values = own.validate(properties, _classes_for(plugins, connector))
    connector.check(properties, own_values)
    result = _infos(name, {**options.keys, **own.keys}, {**values, **own_values}, [*options.groups, *own.groups])
    parts = [
        _converter(plugins, properties, values[each], kind)
        for each, kind in CONVERTERS.items()
        if not values[f"{each}{VERSION}"].errors
    ]
    is_transactional = worker.has_exactly_once and not is_sink
    return _merged(result, _overrides(properties, plugin.type, is_transactional=is_transactional), *parts)


def _of_no_version(plugin: Plugin, properties: Properties, name: str, refused: str) -> ConfigInfos:
    """Return what is wrong with a configuration that asks for a version of the connector that is not there. refused:
    the error."""
    known = common.CONNECTOR.keys
    changed = [_version_of(known[f"{each}{VERSION}"], [], is_hidden=True) for each in CONVERTERS]
    changed.append(_version_of(known["connector.plugin.version"], [plugin]))
    options = ConfigDef(*(known | {key.name: key for key in changed}).values())
    values = options.validate(properties)
    for each in ("connector.class", "connector.plugin.version"):
        values[each].errors.append(refused)
    return _infos(name, options.keys, values, options.groups)


def _check_version(plugins: Plugins, properties: Properties, values: Mapping[str, ConfigValue], option: str) -> None:
    """Refuse a converter of the connector that has none of the versions that are asked for."""
    value, version = values[option], values[f"{option}{VERSION}"]
    try:
        asked = required(properties.get(version.name))
    except ConfigError as error:
        version.errors.append(str(error))
        return
    if asked is None or value.value is None or option not in properties or value.errors:
        return
    refused = asked.refusal(str(value.value), plugins.versions(str(value.value)))
    if refused is not None:
        value.errors.append(refused)
        version.errors.append(refused)


def _check_group(properties: Properties, values: MutableMapping[str, ConfigValue], group_id: str | None) -> None:
    """Refuse a sink whose consumers would be in the workers' own group."""
    option = "consumer.override.group.id"
    if group_id is not None and properties.get(option) == group_id:
        value = values.setdefault(option, ConfigValue(option, group_id))
        value.errors.append(f"Consumer group {group_id} conflicts with Connect worker group {group_id}")
    elif group_id is not None and option not in properties and group_id == f"connect-{values['name'].value}":
        values["name"].errors.append(
            f"Consumer group for sink connector named {values['name'].value} conflicts with Connect worker group "
            f"{group_id}"
        )


def _check_exactly_once(
    connector: Any, properties: Properties, values: Mapping[str, ConfigValue], worker: Defaults
) -> None:
    """Refuse a source that requires transactions without the worker's or the connector's support."""
    support, boundary = values["exactly.once.support"], values["transaction.boundary"]
    if not support.errors and str(support.value).lower() == "required":
        if not worker.has_exactly_once:
            support.errors.append("This worker does not have exactly-once source support enabled.")
        ask = getattr(connector, "exactly_once", None)
        if ask is None:
            support.errors.append(NOT_ASKED)
        elif not ask({key: value for key, value in properties.items() if value is not None}):
            support.errors.append(
                "The connector does not support exactly-once semantics with the provided configuration."
            )
    if not boundary.errors and str(boundary.value).lower() == "connector":
        boundary.errors.append(
            "The connector does not support connector-defined transaction boundaries with the given configuration. "
            "Please reconfigure it to use a different transaction boundary definition."
        )


def enriched(
    plugins: Plugins, base: ConfigDef, properties: Properties, worker: Defaults, connector: Plugin
) -> ConfigDef:
    """Return options with the worker's defaults, and with those of the configured transforms and predicates."""
    keys = [_with_choices(plugins, key, properties, worker, connector) for key in base]
    for option, kind in (("transforms", PluginType.TRANSFORMATION), ("predicates", PluginType.PREDICATE)):
        aliases = parse_value(option, properties.get(option), Type.LIST)
        for alias in dict.fromkeys(aliases if isinstance(aliases, list) else ()):
            keys += _of_alias(plugins, option, alias, kind, properties)
    return ConfigDef(*{key.name: key for key in keys}.values())


def _with_choices(
    plugins: Plugins, key: ConfigKey, properties: Properties, worker: Defaults, connector: Plugin
) -> ConfigKey:
    if key.name == "connector.plugin.version":
        return _version_of(key, [connector])
    if key.name in CONVERTERS:
        kind = CONVERTERS[key.name]
        names = [each.name for each in plugins.of(kind)]
        default = worker.converters.get(key.name)
        return replace(key, recommender=Choices(names), validator=_class_of(plugins, kind), default=default)
    option = key.name.removesuffix(VERSION)
    if key.name.endswith(VERSION) and option in CONVERTERS:
        name = properties.get(option, worker.converters.get(option))
        found = [each for each in plugins.of(CONVERTERS[option]) if each.name == name]
        return _version_of(key, found, is_hidden=name is not None and not plugins.has_class(name))
    return key


def _version_of(key: ConfigKey, found: Sequence[Plugin], *, is_hidden: bool = False) -> ConfigKey:
    """Return an option for the version of a plug-in. found: the plug-in; none for one that does not exist."""
    versions = [each.version for each in found]
    choices = Choices(versions, is_hidden)
    return replace(key, default=versions[0] if versions else None, recommender=choices)


def _class_of(plugins: Plugins, kind: PluginType) -> Validator:
    """Return a validator for classes of a type of plug-in."""
    interface, what = INTERFACES[kind]

    def check(name: str, value: Value) -> None:  # noqa: ARG001  (Kafka's text has no option)
        if value is not None and not any(each.name == value for each in plugins.of(kind)):
            raise ConfigError(f"Class class {value} does not implement the {interface} {what}")

    return check


def _of_alias(
    plugins: Plugins, option: str, alias: str, kind: PluginType, properties: Properties
) -> Sequence[ConfigKey]:
    """Return the options of a transform or a predicate."""
    title, prefix = INTERFACES[kind][0], f"{option}.{alias}."
    group = f"{option.capitalize()}: {alias}"
    choices = [each.name for each in plugins.of(kind)]
    is_class = _class_of(plugins, kind)

    def check(name: str, value: Value) -> None:
        if f"{prefix}negate" in properties and f"{prefix}predicate" not in properties:
            raise ConfigError(
                f"Config '{prefix}negate' was provided but there is no config '{prefix}predicate' defining a "
                "predicate to be negated."
            )
        if value is not None:
            is_class(name, value)
        check_version(name, value)

    name = (properties.get(f"{prefix}type") or "").strip()
    found = next((each for each in plugins.of(kind) if each.name == name), None)
    refused = None
    if found is not None:
        try:
            asked = required(properties.get(f"{prefix}plugin.version"))
            refused = asked and asked.refusal(name, plugins.versions(name))
        except ConfigError as error:
            refused = str(error)

    def check_version(name: str, value: Value) -> None:  # noqa: ARG001  (Kafka's text has no option)
        if refused:
            raise ConfigError(refused)

    version = ConfigKey(
        f"{prefix}plugin.version",
        Type.STRING,
        None,
        Importance.HIGH,
        f"The version, or range of versions, of {title.lower()} {alias}.",
        check_version,
        group,
        1,
        Width.LONG,
        f"{title} version for {alias}",
    )
    keys = [
        ConfigKey(
            f"{prefix}type",
            Type.CLASS,
            REQUIRED,
            Importance.HIGH,
            f"The class of {title.lower()} {alias}.",
            check,
            group,
            0,
            Width.LONG,
            f"{title} type for {alias}",
            (),
            Choices(choices),
        ),
        _version_of(version, [] if found is None else [found]),
    ]
    if found is None or refused:
        return keys
    own: ConfigDef = found.load().config()
    implicit = TRANSFORM if kind is PluginType.TRANSFORMATION else ConfigDef()
    embedded = implicit + ConfigDef(*(each for each in own if each.name not in implicit.keys))
    return [*keys, *embedded.embedded(prefix, group, 2)]


def _converter(plugins: Plugins, properties: Properties, value: ConfigValue, kind: PluginType) -> ConfigInfos | None:
    """Return the options of a converter that the connector has of its own."""
    name = properties.get(value.name)
    found = [each for each in plugins.of(kind) if each.name == name]
    if not found or value.errors:
        return None
    prefix = f"{value.name}."
    own = {key.removeprefix(prefix): text for key, text in properties.items() if key.startswith(prefix)}
    own.setdefault("converter.type", value.name.partition(".")[0])
    converter = found[0].load()
    options: ConfigDef = converter.config()
    return _prefixed(prefix, options, options.validate(own, _classes_for(plugins, converter)))


def _classes_for(plugins: Plugins, owner: Any) -> IsClass:
    """Return whether there is a class that an option of a connector or converter may name: a plug-in, or one of the
    owner's CLASSES, such as replication policies."""
    known: Collection[str] = getattr(owner, "CLASSES", ())
    return lambda name: name in known or plugins.has_class(name)


def _prefixed(prefix: str, options: ConfigDef, values: Mapping[str, ConfigValue]) -> ConfigInfos:
    ordered = [options.keys[name] for name in hash_map_order(values) if name in options.keys]
    configs = [
        (replace(key, name=prefix + key.name, display=key.title), replace(values[key.name], name=prefix + key.name))
        for key in ordered
    ]
    groups = [key.group for key in ordered if key.group is not None]
    return ConfigInfos("", sum(bool(each.errors) for each in values.values()), groups, configs)


def _overrides(properties: Properties, kind: PluginType, *, is_transactional: bool) -> ConfigInfos:
    """Return the overrides of the properties of the connector's clients, with errors for those that are not
    honoured."""
    has_queue = bool((properties.get(common.DLQ_TOPIC) or "").strip())
    creates = any(each.startswith(common.TOPIC_CREATION_PREFIX) for each in properties)
    is_source = kind is PluginType.SOURCE
    used = {
        Client.PRODUCER: is_source or has_queue,
        Client.CONSUMER: not is_source,
        Client.ADMIN: creates if is_source else has_queue,
    }
    values = [
        _override(client, name, text, is_transactional=is_transactional)
        for client, is_used in used.items()
        if is_used
        for name, text in properties.items()
        if name.startswith(f"{client}.override.")
    ]
    return ConfigInfos("", sum(len(each.errors) for each in values), (), [(None, each) for each in values])


def _override(client: Client, name: str, text: str | None, *, is_transactional: bool) -> ConfigValue:
    own = name.removeprefix(f"{client}.override.")
    reason = None if text is None else refusal(client, own, text, is_transactional=is_transactional)
    return ConfigValue(name, text, errors=[] if reason is None else [str(ConfigError.of(name, text, reason))])


def _infos(
    name: str, keys: Mapping[str, ConfigKey], values: MutableMapping[str, ConfigValue], groups: Sequence[str]
) -> ConfigInfos:
    configs: list[tuple[ConfigKey | None, ConfigValue | None]] = [
        (None, value) for key, value in values.items() if key not in keys
    ]
    configs += [(key, values.get(key.name)) for key in keys.values()]
    errors = sum(len(value.errors) for _, value in configs if value is not None)
    return ConfigInfos(name, errors, list(dict.fromkeys(groups)), configs)


def _merged(first: ConfigInfos, *others: ConfigInfos | None) -> ConfigInfos:
    every = [first, *(each for each in others if each is not None)]
    return ConfigInfos(
        first.name,
        sum(each.error_count for each in every),
        list(dict.fromkeys(group for each in every for group in each.groups)),
        [config for each in every for config in each.configs],
    )
