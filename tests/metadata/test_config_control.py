"""Changes of configurations become records, or errors; a check alone changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.java.values import java_split
from kcli.log.config import InvalidConfig
from kcli.metadata.config_control import (
    NewConfigs,
    Operation,
    ResourceChange,
    alter_configs,
    incremental_alter_configs,
)
from kcli.metadata.image import BROKER_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE, MetadataImage, Record
from kcli.metadata.partition import from_uuid
from kcli.metadata.result import NO_ERROR, Error, Refused
from kcli.protocol.error_code import ErrorCode

SET, DELETE, APPEND, SUBTRACT = Operation
TOPIC = (TOPIC_RESOURCE, "t")


class AnySchema:
    """A schema in which `words` is a list with a default; `bad` is refused as a configuration, a group as a request."""

    def list_default(self, resource_type: int, name: str) -> Sequence[str] | None:  # noqa: ARG002 (the signature of what it stands for)
        return ("a", "b") if name == "words" else None

    def validate(
        self,
        resource_type: int,
        name: str,  # noqa: ARG002 (the signature of what it stands for)
        configs: Mapping[str, str],
        existing: Mapping[str, str],
    ) -> None:
        if "bad" in configs:
            raise InvalidConfig(f"bad is {configs['bad']}, was {existing.get('bad')}")
        if resource_type == GROUP_RESOURCE:
            raise Refused(ErrorCode.INVALID_REQUEST, "no groups")


SCHEMA = AnySchema()


def image_of(*records: tuple[str, dict[str, Any]]) -> MetadataImage:
    image = MetadataImage()
    for offset, (name, value) in enumerate(records):
        image.apply(name, value, offset)
    return image


def config(kind: int, resource: str, name: str, value: str | None) -> tuple[str, dict[str, Any]]:
    return "ConfigRecord", {"resourceType": kind, "resourceName": resource, "name": name, "value": value}


def feature(name: str, level: int) -> tuple[str, dict[str, Any]]:
    return "FeatureLevelRecord", {"name": name, "featureLevel": level}


TOPIC_RECORD = "TopicRecord", {"name": "t", "topicId": from_uuid(UUID(int=10))}
ELR = feature("eligible.leader.replicas.version", 1)


def values(records: Sequence[Record]) -> dict[str, str | None]:
    return {value["name"]: value["value"] for name, _, value in records if name == "ConfigRecord"}


def change(
    image: MetadataImage, *operations: tuple[str, int, str | None], resource: tuple[int, str] = TOPIC
) -> tuple[Error, list[Record]]:
    records, (error,) = incremental_alter_configs(image, SCHEMA, [ResourceChange(*resource, operations)])
    return error, records


def test_what_is_as_it_was_gives_no_record_but_for_brokers() -> None:
    image = image_of(TOPIC_RECORD, config(*TOPIC, "flush.ms", "1"), config(BROKER_RESOURCE, "", "x", "1"))
    assert change(image, ("flush.ms", SET, "1"), ("flush.messages", DELETE, None)) == (NO_ERROR, [])
    error, records = change(image, ("x", SET, "1"), resource=(BROKER_RESOURCE, ""))
    assert (error, values(records)) == (NO_ERROR, {"x": "1"})


@pytest.mark.parametrize(
    ("current", "operation", "text", "new"),
    [
        (None, APPEND, "c,a", "a,b,c"),
        (None, SUBTRACT, "a,z", "b"),
        ("x,,y", APPEND, "z", "x,y,z"),
        ("x,y,x", SUBTRACT, "x", "y,x"),
        ("x", SUBTRACT, "x", ""),
        ("", APPEND, "x", "x"),
        ("x", APPEND, "y,,", "x,y"),
        ("x", APPEND, ",y", "x,,y"),
    ],
)
def test_lists(current: str | None, operation: Operation, text: str, new: str) -> None:
    kind = (BROKER_RESOURCE, "")
    image = image_of() if current is None else image_of(config(*kind, "words", current))
    error, records = change(image, ("words", operation, text), resource=kind)
    assert (error, values(records)) == (NO_ERROR, {"words": new})


def test_what_is_no_list_is_not_appended_to() -> None:
    reason = "Can't SUBTRACT to key flush.ms because its type is not LIST."
    assert change(image_of(TOPIC_RECORD), ("flush.ms", SUBTRACT, "1")) == (Error(ErrorCode.INVALID_CONFIG, reason), [])


def test_one_refused_resource_leaves_the_others() -> None:
    image = image_of(TOPIC_RECORD, config(GROUP_RESOURCE, "g", "bad", "0"))
    changes = [
        ResourceChange(*TOPIC, [("flush.ms", SET, "1")]),
        ResourceChange(GROUP_RESOURCE, "g", [("bad", SET, "1")]),
        ResourceChange(GROUP_RESOURCE, "h", [("x", SET, "1")]),
        ResourceChange(TOPIC_RESOURCE, "u", [("flush.ms", SET, "1")]),
        ResourceChange(BROKER_RESOURCE, "7", [("x", SET, "1")]),
    ]
    records, errors = incremental_alter_configs(image, SCHEMA, changes)
    assert values(records) == {"flush.ms": "1"}
    assert errors == [
        NO_ERROR,
        Error(ErrorCode.INVALID_CONFIG, "bad is 1, was 0"),
        Error(ErrorCode.INVALID_REQUEST, "no groups"),
        Error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'u' does not exist."),
        Error(ErrorCode.BROKER_ID_NOT_REGISTERED, "No node with id 7 found."),
    ]
    assert incremental_alter_configs(image, SCHEMA, changes, validate_only=True) == ([], errors)


def test_an_unknown_operation_fails_the_whole_request() -> None:
    with pytest.raises(Refused) as refused:
        change(image_of(TOPIC_RECORD), ("flush.ms", 4, "1"))
    assert refused.value.error == Error(ErrorCode.UNKNOWN_SERVER_ERROR)


def test_values_have_an_end() -> None:
    assert change(image_of(TOPIC_RECORD), ("x", SET, "v" * 32_767))[0] == NO_ERROR
    reason = "The configuration value cannot be added because it exceeds the maximum value size of 32767 bytes."
    assert change(image_of(TOPIC_RECORD), ("x", SET, "v" * 32_768))[0] == Error(ErrorCode.INVALID_CONFIG, reason)


def test_replacing_takes_back_what_is_not_named() -> None:
    image = image_of(TOPIC_RECORD, *(config(*TOPIC, f"flush.{name}", "1") for name in ("ms", "messages")))
    records, errors = alter_configs(image, SCHEMA, [NewConfigs(*TOPIC, {"flush.ms": "1", "segment.ms": "2"})])
    assert (errors, values(records)) == ([NO_ERROR], {"segment.ms": "2", "flush.messages": None})


MIN_ISR = "min.insync.replicas"


@pytest.mark.parametrize(
    ("resource", "cleared"), [(TOPIC, {"topicName": "t"}), ((BROKER_RESOURCE, ""), {"topicName": ""})]
)
def test_a_new_min_isr_clears_eligible_replicas(resource: tuple[int, str], cleared: dict[str, str]) -> None:
    error, records = change(image_of(TOPIC_RECORD, ELR), (MIN_ISR, SET, "2"), resource=resource)
    assert error == NO_ERROR
    assert records[1:] == [("ClearElrRecord", 0, cleared)]
    assert len(change(image_of(TOPIC_RECORD), (MIN_ISR, SET, "2"), resource=resource)[1]) == 1


def test_min_isr_of_brokers_is_kept_where_replicas_are_eligible_by_it() -> None:
    stored = config(BROKER_RESOURCE, "", MIN_ISR, "1")
    own = Error(ErrorCode.INVALID_CONFIG, "Broker-level min.insync.replicas cannot be altered while ELR is enabled.")
    gone = Error(ErrorCode.INVALID_CONFIG, "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.")
    image = image_of(ELR, stored)
    assert change(image, (MIN_ISR, SET, "2"), resource=(BROKER_RESOURCE, "1")) == (own, [])
    assert change(image, (MIN_ISR, DELETE, None), resource=(BROKER_RESOURCE, "")) == (gone, [])
    assert alter_configs(image, SCHEMA, [NewConfigs(BROKER_RESOURCE, "", {})]) == ([], [gone])


def test_directories_are_cordoned_from_4_3_on() -> None:
    wanted = ("cordoned.log.dirs", SET, "*")
    for level, code in ((29, ErrorCode.INVALID_CONFIG), (30, ErrorCode.NONE)):
        error, _ = change(image_of(feature("metadata.version", level)), wanted, resource=(BROKER_RESOURCE, ""))
        assert error.code == code


@pytest.mark.parametrize(
    ("text", "words"),
    [("", [""]), ("a", ["a"]), ("a,b", ["a", "b"]), (",a", ["", "a"]), ("a,,", ["a"]), (",", []), (",,", [])],
)
def test_words_are_javas(text: str, words: list[str]) -> None:
    assert java_split(text) == words


RESOURCES = st.sampled_from([TOPIC, (BROKER_RESOURCE, ""), (GROUP_RESOURCE, "g"), (TOPIC_RESOURCE, "nowhere")])
NAMES = st.sampled_from(["flush.ms", "words", MIN_ISR, "bad"])
OPERATIONS = st.tuples(NAMES, st.sampled_from(Operation), st.sampled_from(["1", "a", "b,c", ""]))


@given(st.lists(st.tuples(RESOURCES, st.lists(OPERATIONS, max_size=3)), max_size=4))
def test_records_make_what_was_checked(asked: list[tuple[tuple[int, str], list[tuple[str, int, str]]]]) -> None:
    """The check changes nothing; the records of an accepted request, replayed, satisfy the schema; a refused one has no
    records."""
    image = image_of(TOPIC_RECORD, ELR)
    changes = [ResourceChange(*resource, operations) for resource, operations in asked]
    records, errors = incremental_alter_configs(image, SCHEMA, changes)
    assert not image.configured
    assert all(error == NO_ERROR or error.message for error in errors)
    for offset, (name, _, value) in enumerate(records, 2):
        image.apply(name, value, offset)
    for kind, resource in image.configured:
        SCHEMA.validate(kind, resource, image.configs(kind, resource), {})
