"""ConfigDef: values, all errors at once, and Kafka's words."""

from __future__ import annotations

import pytest

from kcli.connect.config import validators
from kcli.connect.config.common import SINK, SOURCE, check_topics, topic_creation
from kcli.connect.config.config_def import (
    REQUIRED,
    ConfigDef,
    ConfigError,
    ConfigKey,
    Importance,
    Password,
    Type,
    Validator,
    Value,
    parse_value,
    value_text,
)

LOW = Importance.LOW


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Type.BOOLEAN, " TRUE ", True),
        (Type.INT, "+7", 7),
        (Type.LONG, "-9223372036854775808", -(1 << 63)),
        (Type.DOUBLE, "1e3", 1000.0),
        (Type.STRING, " a b ", "a b"),
        (Type.LIST, " a , b,,c ", ["a", "b", "", "c"]),
        (Type.LIST, "  ", []),
        (Type.CLASS, "a.B", "a.B"),
        (Type.PASSWORD, "s3cret", Password("s3cret")),
    ],
)
def test_values(kind: Type, text: str, value: object) -> None:
    assert parse_value("n", text, kind) == value


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        (Type.BOOLEAN, "yes", "Invalid value yes for configuration n: Expected value to be either true or false"),
        (Type.INT, "2147483648", "Invalid value 2147483648 for configuration n: Not a number of type INT"),
        (Type.SHORT, "x", "Invalid value x for configuration n: Not a number of type SHORT"),
        (Type.DOUBLE, "", "Invalid value  for configuration n: Not a number of type DOUBLE"),
        (Type.CLASS, "a.B", "Invalid value a.B for configuration n: Class a.B could not be found."),
    ],
)
def test_refusals(kind: Type, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_value("n", text, kind, is_class=lambda _: False)
    assert str(error.value) == message


def test_validators_use_kafkas_words() -> None:
    def refusal(validator: Validator, value: Value) -> str:
        with pytest.raises(ConfigError) as error:
            validator("n", value)
        return str(error.value)

    assert refusal(validators.at_least(1), 0) == "Invalid value 0 for configuration n: Value must be at least 1"
    assert refusal(validators.between(0, 5), 6).endswith(": Value must be no more than 5")
    assert refusal(validators.at_least(1), None) == "Invalid value null for configuration n: Value must be non-null"
    assert refusal(validators.one_of("a", "b"), "c").endswith(": String must be one of: a, b")
    assert refusal(validators.unique_aliases, ["a", "a"]) == (
        "Invalid value [a, a] for configuration n: Duplicate alias provided."
    )
    assert refusal(validators.distinct(), ["a", "a"]) == "Configuration 'n' values must not be duplicated."
    assert refusal(validators.without_control, "a\x07\n").endswith("the following ASCII chars: 7, 10")


def test_all_errors_at_once() -> None:
    values = SOURCE.validate({"name": "", "tasks.max": "0", "errors.tolerance": "some", "errors.log.enable": "x"})
    assert {name: each.errors for name, each in values.items() if each.errors} == {
        "name": ["Invalid value  for configuration name: String may not be empty"],
        "connector.class": ['Missing required configuration "connector.class" which has no default value.'],
        "tasks.max": ["Invalid value 0 for configuration tasks.max: Value must be at least 1"],
        "errors.tolerance": ["Invalid value some for configuration errors.tolerance: String must be one of: none, all"],
        "errors.log.enable": [
            "Invalid value x for configuration errors.log.enable: Expected value to be either true or false"
        ],
    }
    assert values["tasks.max.enforce"].value is True
    assert value_text(values["tasks.max.enforce"].value) == "true"


def test_a_value_that_is_no_number_fails_its_validator_too() -> None:
    errors = SOURCE.validate({"tasks.max": "many"})["tasks.max"].errors
    assert errors == [
        "Invalid value many for configuration tasks.max: Not a number of type INT",
        "Invalid value null for configuration tasks.max: Value must be non-null",
    ]


def test_parse_raises_the_first_error_and_gives_defaults() -> None:
    options = ConfigDef(
        ConfigKey("a", Type.STRING, REQUIRED, LOW, ""), ConfigKey("b", Type.INT, "3", LOW, "", validators.at_least(1))
    )
    assert options.parse({"a": "x", "other": "y"}) == {"a": "x", "b": 3}
    with pytest.raises(ConfigError, match='Missing required configuration "a" which has no default value'):
        options.parse({"b": "0"})
    with pytest.raises(ValueError, match="a is defined twice"):
        options + options


def test_embedded_options_are_checked_by_their_own_names() -> None:
    embedded = topic_creation("g", "3", "1").embedded("topic.creation.g.", "Topic Creation: g", 0)
    assert [(each.name, each.group, each.order) for each in embedded][:2] == [
        ("topic.creation.g.include", "Topic Creation: g: g", 0),
        ("topic.creation.g.exclude", "Topic Creation: g: g", 1),
    ]
    value = embedded.validate({"topic.creation.g.partitions": "0"})["topic.creation.g.partitions"]
    assert [each.partition(": ")[0] for each in value.errors] == ["Invalid value 0 for configuration partitions"]


@pytest.mark.parametrize(
    ("properties", "errors"),
    [
        ({}, {"topics": 1, "topics.regex": 1}),
        ({"topics": "a", "topics.regex": "b"}, {"topics": 1, "topics.regex": 1}),
        ({"topics": "a,b", "errors.deadletterqueue.topic.name": " b "}, {"topics": 1}),
        ({"topics.regex": "b.*", "errors.deadletterqueue.topic.name": "bad"}, {"topics.regex": 1}),
        ({"topics": "a", "errors.deadletterqueue.topic.name": "bad"}, {}),
    ],
)
def test_topics_of_a_sink(properties: dict[str, str | None], errors: dict[str, int]) -> None:
    values = SINK.validate({"name": "n", "connector.class": "c", **properties})
    check_topics(properties, values)
    assert {name: len(each.errors) for name, each in values.items() if each.errors} == errors


def test_a_password_is_never_shown() -> None:
    value = parse_value("n", "s3cret", Type.PASSWORD)
    assert value_text(value) == f"{value}" == f"{value!r}" == "[hidden]"
