"""Versions of plug-ins that a configuration asks for (KIP-891). The answers are those of a worker of Kafka 4.3."""

from __future__ import annotations

import itertools

import pytest

from kcli.connect.builtin import built_in
from kcli.connect.config.config_def import ConfigError
from kcli.connect.config.versions import compared, required
from kcli.connect.worker.errors import BadRequest, NotFound
from kcli.connect.worker.validation import Defaults, plugin_config, validate
from tests.connect.calls import SOURCE
from tests.connect.simple import PLUGINS

STRINGS = "org.apache.kafka.connect.storage.StringConverter"
DROP = "org.apache.kafka.connect.transforms.DropHeaders"
TOMBSTONE = "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone"
BASE = {"name": "a", "file": "f", "topic": "t", "connector.class": "FileStreamSource"}
NEWER = [
    "1-alpha",
    "1-alpha-2",
    "1-beta",
    "1-milestone",
    "1-rc1",
    "1-rc2",
    "1-snapshot",
    "1",
    "1-sp",
    "1-x",
    "1.1",
    "2",
]
"""Each is newer than the one before."""
MATCHING = [
    *("4.3", "4.3.0", "4.3.0.0", "4.3.0-ga", "[4.3.0]", "[4.3]", "[4.3.0,)", "[4.0,5)", "(,9)", "(,4.3.0]"),
    *("[1,2],[4,5]", "[4.3.0-SNAPSHOT,)", "[,)", "latest", "(,1.0],[1.2,)"),
]
OTHERS = [
    ("(,4.3.0)", "(,4.3.0)"),
    ("[1,2],", "[1,2]"),
    ("", "[,]"),
    ("x", "[x,x]"),
    ("Latest", "[Latest,Latest]"),
    ("[4.3.1-alpha,)", "[4.3.1-alpha,)"),
    ("4.2.9", "[4.2.9,4.2.9]"),
    ("1.0", "[1.0,1.0]"),
]
INVALID = [
    ("[4.3.0", "Unbounded range: [4.3.0"),
    ("4.3.0]", "Only fully-qualified sets allowed in multiple set scenario: [4.3.0]]"),
    ("[5,4]", "Range defies version ordering: [5,4]"),
    ("(4.3.0]", "Single version must be surrounded by []: (4.3.0]"),
    ("[1,2),[1.5,3)", "Ranges overlap: [1,2),[1.5,3)"),
    ("4,3", "Range defies version ordering: [4,3]"),
    ("[4.3.0,4.3.0)", "Range defies version ordering: [4.3.0,4.3.0)"),
]


def errors(**more: str) -> dict[str, list[str]]:
    found = validate(PLUGINS, BASE | {name.replace("__", "."): text for name, text in more.items()}, Defaults())
    told = {each.name: each.errors for _, each in found.configs if each is not None and each.errors}
    assert found.error_count == sum(map(len, told.values()))
    return told


def refusal(plugin: str, asked: str, versions: str = "4.3.0") -> str:
    return f"Plugin {plugin} not found that matches the version range {asked}, available versions: [{versions}]"


def test_versions_are_in_maven_s_order() -> None:
    for (at, one), (place, other) in itertools.product(enumerate(NEWER), repeat=2):
        assert compared(one, other) == (at > place) - (at < place), (one, other)
    for same in ("1.0", "1.0.0-final", "1-ga", "1.release", "01"):
        assert compared(same, "1") == 0
    assert compared("1-a1", "1-alpha-1") == compared("1-rc", "1-cr") == 0


@pytest.mark.parametrize("version", MATCHING)
def test_a_version_that_there_is(version: str) -> None:
    assert not errors(connector__plugin__version=version)


@pytest.mark.parametrize(("version", "asked"), OTHERS)
def test_a_version_that_there_is_not(version: str, asked: str) -> None:
    told = [refusal(SOURCE, asked)]
    assert errors(connector__plugin__version=version) == {"connector.class": told, "connector.plugin.version": told}
    with pytest.raises(BadRequest) as error:
        plugin_config(PLUGINS, "FileStreamSource", version)
    assert str(error.value) == told[0]


@pytest.mark.parametrize(("version", "reason"), INVALID)
def test_a_version_that_is_none(version: str, reason: str) -> None:
    with pytest.raises(ConfigError) as error:
        required(version)
    assert str(error.value) == reason
    with pytest.raises(BadRequest) as refused:
        errors(connector__plugin__version=version)
    assert str(refused.value) == reason
    with pytest.raises(BadRequest, match="Invalid version specification: "):
        plugin_config(PLUGINS, "nosuch", version)


@pytest.mark.parametrize("option", ["key.converter", "value.converter", "header.converter"])
def test_versions_of_converters(option: str) -> None:
    version = f"{option}.plugin.version"
    told = [refusal(STRINGS, "[1.0,1.0]", "4.3.0, 4.3.0")]
    assert errors(**{option: STRINGS, version: "1.0"}) == {option: told, version: told}
    assert errors(**{option: STRINGS, version: "[5"}) == {version: ["Unbounded range: [5"]}
    assert errors(**{version: "[5"}) == {version: ["Unbounded range: [5"]}
    assert not errors(**{option: STRINGS, version: "[4,5)"})
    assert not errors(**{version: "1.0"})
    assert list(errors(**{option: "no.such", version: "1.0"})) == [option]


@pytest.mark.parametrize(("kind", "name"), [("transforms", DROP), ("predicates", TOMBSTONE)])
def test_versions_of_transforms_and_predicates(kind: str, name: str) -> None:
    given = {kind: "a", f"{kind}.a.type": name, **({f"{kind}.a.headers": "x"} if name == DROP else {})}
    version = f"{kind}.a.plugin.version"
    told = [refusal(name, "[1.0,1.0]")]
    assert errors(**given, **{version: "1.0"}) == {f"{kind}.a.type": told, version: told}
    told = ["Unbounded range: [5"]
    assert errors(**given, **{version: "[5"}) == {f"{kind}.a.type": told, version: told}
    for each in ("[4,5)", "4.3", "latest"):
        assert not errors(**given, **{version: each})
    assert list(errors(**{**given, f"{kind}.a.type": "no.such", version: "1.0"})) == [f"{kind}.a.type"]


def test_options_of_a_version() -> None:
    for version in (None, "4.3", "[4,5)", "latest"):
        assert plugin_config(built_in(), "FileStreamSource", version)
    with pytest.raises(NotFound):
        plugin_config(PLUGINS, "nosuch", "1")
