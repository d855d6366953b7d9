"""The options that every connector has, those of sources and those of sinks, and those of the topics that a source
creates (KIP-158). Source: ConnectorConfig, SourceConnectorConfig, SinkConnectorConfig and TopicCreationConfig of
Kafka's connect-runtime 4.3."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Final

from kcli.connect.config import validators
from kcli.connect.config.config_def import (
    REQUIRED,
    ConfigDef,
    ConfigError,
    ConfigKey,
    ConfigValue,
    Importance,
    Type,
    Value,
    Width,
    parse_value,
)
from kcli.java.linear_regex import PatternError
from kcli.java.regex import JavaRegex

HIGH, MEDIUM, LOW = Importance
NONE_WIDE, SHORT, MIDDLE, LONG = Width
COMMON: Final = "Common"
ERRORS: Final = "Error Handling"
TOPIC_CREATION: Final = "Topic Creation"
EXACTLY_ONCE: Final = "Exactly Once Support"
TOPIC_CREATION_PREFIX: Final = "topic.creation."
DLQ_TOPIC: Final = "errors.deadletterqueue.topic.name"


def valid_regex(name: str, value: Value) -> None:
    """Refuse a text that is no regular expression of Java's. Raises ConfigError."""
    if not isinstance(value, str):
        raise ConfigError.of(name, value, "Invalid regex: there is none")
    try:
        JavaRegex(value)
    except PatternError as error:
        raise ConfigError.of(name, value, f"Invalid regex: {error}") from None


def _valid_regexes(name: str, value: Value) -> None:
    assert isinstance(value, list), value
    for each in value:
        try:
            JavaRegex(each)
        except PatternError as error:
            raise ConfigError.of(name, value, f"Syntax error in regular expression: {error}") from None


def _valid_partitions(name: str, value: Value) -> None:
    assert isinstance(value, int), value
    if value < 1 and value != -1:
        raise ConfigError.of(name, value, "Number of partitions must be positive, or -1 to use the broker's default")


def _valid_replication_factor(name: str, value: Value) -> None:
    assert isinstance(value, int), value
    if value < 1 and value != -1:
        raise ConfigError.of(
            name,
            value,
            "Replication factor must be positive and not larger than the number of brokers in the Kafka cluster, "
            "or -1 to use the broker's default",
        )


def _converter(order: int, what: str, title: str) -> tuple[ConfigKey, ConfigKey]:
    """Return the options for a converter: its class and its version."""
    name = f"{what.lower()}.converter"
    return (
        ConfigKey(
            name, Type.CLASS, None, LOW, f"The class that converts {title}; by default the worker's.",
            None, COMMON, order, SHORT, f"{what} converter class",
        ),
        ConfigKey(
            f"{name}.plugin.version", Type.STRING, None, LOW, f"The version, or range of versions, of {name}.",
            None, COMMON, order + 1, SHORT, f"{what} converter version",
        ),
    )  # fmt: skip


CONNECTOR: Final = ConfigDef(
    ConfigKey(
        "name", Type.STRING, REQUIRED, HIGH, "The connector's name, of which there is one in a Connect cluster.",
        validators.without_control, COMMON, 1, MIDDLE, "Connector name",
    ),
    ConfigKey(
        "connector.class", Type.STRING, REQUIRED, HIGH,
        "The connector's class: its full name, or the simple name with or without its ending Connector.",
        None, COMMON, 2, LONG, "Connector class",
    ),
    ConfigKey(
        "connector.plugin.version", Type.STRING, None, MEDIUM, "The version, or range of versions, of the class.",
        None, COMMON, 3, MIDDLE, "Connector version",
    ),
    ConfigKey(
        "tasks.max", Type.INT, 1, HIGH, "The number of tasks that the connector may have.",
        validators.at_least(1), COMMON, 4, SHORT, "Tasks max",
    ),
    ConfigKey(
        "tasks.max.enforce", Type.BOOLEAN, "true", LOW, "Whether a connector with more than tasks.max tasks fails.",
        None, COMMON, 5, SHORT, "Enforce tasks max",
    ),
    *_converter(6, "Key", "keys of records"),
    *_converter(8, "Value", "values of records"),
    *_converter(10, "Header", "values of headers"),
    ConfigKey(
        "transforms", Type.LIST, "", LOW, "The aliases of the transforms of each record, in their order.",
        validators.unique_aliases, "Transforms", 12, LONG, "Transforms",
    ),
    ConfigKey(
        "predicates", Type.LIST, "", LOW, "The aliases of the predicates that transforms name.",
        validators.unique_aliases, "Predicates", 13, LONG, "Predicates",
    ),
    ConfigKey(
        "config.action.reload", Type.STRING, "restart", LOW,
        "What becomes of the connector when a config provider's values expire: restart, or none.",
        validators.one_of("none", "restart"), COMMON, 14, MIDDLE, "Reload Action",
    ),
    ConfigKey(
        "errors.retry.timeout", Type.LONG, "0", MEDIUM,
        "How long an operation that fails is tried again, in ms; -1 for ever.",
        None, ERRORS, 1, MIDDLE, "Retry Timeout for Errors",
    ),
    ConfigKey(
        "errors.retry.delay.max.ms", Type.LONG, "60000", MEDIUM, "The longest time between two tries.",
        None, ERRORS, 2, MIDDLE, "Maximum Delay Between Retries for Errors",
    ),
    ConfigKey(
        "errors.tolerance", Type.STRING, "none", MEDIUM,
        "none: a record that cannot be converted fails its task. all: it is left out.",
        validators.one_of("none", "all"), ERRORS, 3, SHORT, "Error Tolerance",
    ),
    ConfigKey(
        "errors.log.enable", Type.BOOLEAN, "false", MEDIUM, "Whether each record that fails has a line in the log.",
        None, ERRORS, 4, SHORT, "Log Errors",
    ),
    ConfigKey(
        "errors.log.include.messages", Type.BOOLEAN, "false", MEDIUM,
        "Whether that line shows the record, which may hold secrets.",
        None, ERRORS, 5, SHORT, "Log Error Details",
    ),
)  # fmt: skip
"""The options of every connector."""

SOURCE: Final = CONNECTOR + ConfigDef(
    ConfigKey(
        "topic.creation.groups", Type.LIST, "", LOW, "Groups of topics, each with settings to create them with.",
        validators.unique_aliases, TOPIC_CREATION, 1, LONG, "Topic Creation Groups",
    ),
    ConfigKey(
        "exactly.once.support", Type.STRING, "requested", MEDIUM,
        "required: the connector is refused unless it gives each record exactly once, and the worker has it enabled.",
        validators.one_of_ignoring_case("required", "requested"), EXACTLY_ONCE, 2, SHORT, "Exactly once support",
    ),
    ConfigKey(
        "transaction.boundary", Type.STRING, "poll", MEDIUM,
        "Where a transaction ends: after each batch (poll), each interval, or where the connector says so.",
        validators.one_of_ignoring_case("interval", "poll", "connector"), EXACTLY_ONCE, 3, SHORT,
        "Transaction Boundary",
    ),
    ConfigKey(
        "transaction.boundary.interval.ms", Type.LONG, None, LOW,
        "How long a transaction takes with transaction.boundary=interval; by default the worker's "
        "offset.flush.interval.ms.",
        validators.if_set(validators.at_least(0)), EXACTLY_ONCE, 4, SHORT, "Transaction boundary interval",
    ),
    ConfigKey(
        "offsets.storage.topic", Type.STRING, None, LOW, "The connector's own topic of offsets, besides the worker's.",
        validators.non_empty, "offsets.topic", 1, LONG, "Offsets topic",
    ),
)  # fmt: skip
"""The options of every source."""

SINK: Final = CONNECTOR + ConfigDef(
    ConfigKey(
        "topics", Type.LIST, "", HIGH, "The topics to read.", validators.distinct(), COMMON, 4, LONG, "Topics",
    ),
    ConfigKey(
        "topics.regex", Type.STRING, "", HIGH, "Java's regular expression for the names of the topics to read.",
        valid_regex, COMMON, 4, LONG, "Topics regex",
    ),
    ConfigKey(
        DLQ_TOPIC, Type.STRING, "", MEDIUM, "The topic for records that fail; none if it is empty.",
        None, ERRORS, 6, MIDDLE, "Dead Letter Queue Topic Name",
    ),
    ConfigKey(
        "errors.deadletterqueue.topic.replication.factor", Type.SHORT, "3", MEDIUM,
        "The replication factor with which that topic is created.",
        None, ERRORS, 7, MIDDLE, "Dead Letter Queue Topic Replication Factor",
    ),
    ConfigKey(
        "errors.deadletterqueue.context.headers.enable", Type.BOOLEAN, "false", MEDIUM,
        "Whether headers __connect.errors.* of such a record say where and why it failed.",
        None, ERRORS, 8, MIDDLE, "Enable Error Context Headers",
    ),
)  # fmt: skip
"""The options of every sink."""


def topic_creation(group: str, replication_factor: object = REQUIRED, partitions: object = REQUIRED) -> ConfigDef:
    """Return the options of a group of topics that a source creates; of the group `default` by default, whose
    replication factor and number of partitions the others have for their defaults."""
    is_default = group == "default"
    patterns = validators.non_null if is_default else _valid_regexes
    return ConfigDef(
        ConfigKey(
            "include", Type.LIST, ".*" if is_default else "", LOW, "Regular expressions for the names of the topics.",
            patterns, group, 1, LONG, f"Inclusion Topic Pattern for {group}",
        ),
        ConfigKey(
            "exclude", Type.LIST, "", LOW, "Regular expressions for the names of topics that are not of the group.",
            patterns, group, 2, LONG, f"Exclusion Topic Pattern for {group}",
        ),
        ConfigKey(
            "replication.factor", Type.SHORT, replication_factor, LOW, "Replicas of new topics; -1: the broker's.",
            _valid_replication_factor, group, 3, LONG, f"Replication Factor for Topics in {group}",
        ),
        ConfigKey(
            "partitions", Type.INT, partitions, LOW, "Partitions of new topics; -1: the broker's number.",
            _valid_partitions, group, 4, LONG, f"Partition Count for Topics in {group}",
        ),
    )  # fmt: skip


def check_topic_creation(properties: Mapping[str, str | None]) -> None:
    """Refuse settings of topics that a source cannot create. Raises ConfigError."""
    if not any(name.startswith(TOPIC_CREATION_PREFIX) for name in properties):
        return
    prefix = f"{TOPIC_CREATION_PREFIX}default."
    default = topic_creation("default").embedded(prefix, "default", 0).parse(properties)
    sizes = default[f"{prefix}replication.factor"], default[f"{prefix}partitions"]
    groups = parse_value("topic.creation.groups", properties.get("topic.creation.groups"), Type.LIST)
    for group in dict.fromkeys(groups if isinstance(groups, list) else ()):
        if group != "default":
            topic_creation(group, *sizes).embedded(f"{TOPIC_CREATION_PREFIX}{group}.", group, 0).parse(properties)


def topics_of(properties: Mapping[str, str | None]) -> list[str]:
    """Return the topics that a sink's configuration lists, each once."""
    words = parse_value("topics", properties.get("topics"), Type.LIST)
    return list(dict.fromkeys(each for each in words if each)) if isinstance(words, list) else []


def check_topics(properties: Mapping[str, str | None], values: MutableMapping[str, ConfigValue]) -> None:
    """Add what is wrong with a sink's topics to the values: neither or both of topics and topics.regex are set, or the
    sink would read its own dead letter queue."""
    topics, regex = properties.get("topics") or "", properties.get("topics.regex") or ""
    queue = (properties.get(DLQ_TOPIC) or "").strip()

    def refuse(name: str, reason: str) -> None:
        values.setdefault(name, ConfigValue(name, properties.get(name))).errors.append(reason)

    if bool(topics.strip()) == bool(regex.strip()):
        reason = (
            "topics and topics.regex are mutually exclusive options, but both are set."
            if topics.strip()
            else "Must configure one of topics or topics.regex"
        )
        refuse("topics", reason)
        refuse("topics.regex", reason)
    if queue and queue in topics_of(properties):
        listed = f"topics=[{', '.join(topics_of(properties))}]"
        refuse(
            "topics",
            f"The DLQ topic '{queue}' may not be included in the list of topics ('{listed}') consumed by the connector",
        )
    if queue and regex.strip() and _matches(regex, queue):
        refuse(
            "topics.regex",
            f"The DLQ topic '{queue}' may not be matched by the regex for the topics ('topics.regex={regex}') "
            "consumed by the connector",
        )


def _matches(regex: str, text: str) -> bool:
    try:
        return JavaRegex(regex).matches(text)
    except PatternError:
        return False
