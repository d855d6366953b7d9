"""Values of a properties file, of a broker or a client, that are taken from other files and from the environment, so
that the properties file itself has no secrets.

    config.providers=NAME,...                  the providers, each with config.providers.NAME.class
    ${NAME:PATH:KEY}, ${NAME:KEY}              in any value, any number of times: is replaced by what the provider has

    FileConfigProvider        PATH is a properties file, KEY an entry of it
    DirectoryConfigProvider   PATH is a directory, KEY the name of a file in it, whose content is the value
    EnvVarConfigProvider      there is no PATH, KEY is an environment variable

config.providers.NAME.param.allowed.paths names the files and directories below which the first two may read, and
...param.allowlist.pattern names the environment variables that the third may read. Kafka leaves a variable as it is
written if no provider has it, and logs in with that text as the password; kcli raises an error. The names of
properties, and the values that a provider returns, are not searched for variables. Source: AbstractConfig,
ConfigTransformer, AllowedPaths; KIP-297, KIP-421, KIP-887, KIP-993.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Final, NamedTuple

from kcli.errors import UnreadableInput, error_text
from kcli.java.linear_regex import PatternError, compile_linear
from kcli.java.values import java_trim
from kcli.log.config import InvalidConfig
from kcli.log.log_directory import read_properties

PROVIDERS: Final = "config.providers"
_PACKAGE: Final = "org.apache.kafka.common.config.provider"
HIDDEN: Final = "[hidden]"
Lookup = Callable[[str, str], str | None]
"""A function of a path ("" for none) and a key that returns the provider's value; None if the provider has none.
Raises InvalidConfig."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """Properties in which every variable is replaced by its value. secrets: the values of the variables. `repr` shows
    neither properties nor secrets."""

    properties: Mapping[str, str] = field(repr=False)
    secrets: frozenset[str] = field(default=frozenset(), repr=False)

    def hide(self, text: str) -> str:
        """Return `text` with "[hidden]" in place of every secret."""
        for secret in sorted(self.secrets, key=len, reverse=True):
            text = text.replace(secret, HIDDEN)
        return text


def has_variable(text: str) -> bool:
    """Whether `text`, a value, contains a variable, which a config provider has to resolve."""
    return next(_variables(text), None) is not None


class _Variable(NamedTuple):
    """`${provider:path:key}` or `${provider:key}`, at text[start:end] of a value. path: "" if there is none."""

    start: int
    end: int
    provider: str
    path: str
    key: str


def _variables(text: str) -> Iterator[_Variable]:
    """Yield the variables in the text, in order. The time is linear in the length of the text, because the text may
    come from a client."""
    at = 0
    while (start := text.find("${", at)) >= 0 and (close := text.find("}", start)) >= 0:
        at = close + 1
        provider, has_key, rest = text[start + 2 : close].partition(":")
        if has_key:
            path, has_path, key = rest.partition(":")
            yield _Variable(start, at, provider, path if has_path else "", key if has_path else rest)


def resolve(properties: Mapping[str, str]) -> Resolved:
    """Return the properties, with each variable replaced by the value that its provider has.

    Raises InvalidConfig for a provider or key that does not exist, and for a path that cannot or may not be read. The
    error names the property, and shows no value.
    """
    asked = {name: text for name, text in properties.items() if has_variable(text)}
    words = (java_trim(word) for word in properties.get(PROVIDERS, "").split(","))
    providers = {word: _provider(word, properties) for word in words if word}
    if not asked:
        return Resolved(properties)
    secrets: set[str] = set()

    def value_of(name: str, variable: _Variable) -> str:
        lookup = providers.get(variable.provider)
        if lookup is None:
            raise InvalidConfig(f"{name}: {PROVIDERS} names no provider {variable.provider!r} with a class")
        try:
            value = lookup(variable.path, variable.key)
        except InvalidConfig as error:
            raise InvalidConfig(f"{name}: {error}") from None
        if value is None:
            where = f" in {variable.path}" if variable.path else ""
            raise InvalidConfig(f"{name}: the provider {variable.provider!r} has no key {variable.key!r}{where}")
        if trimmed := java_trim(value):
            secrets.update((value, trimmed))
        return value

    def resolved(name: str, text: str) -> str:
        parts, at = [], 0
        for each in _variables(text):
            parts += [text[at : each.start], value_of(name, each)]
            at = each.end
        return "".join([*parts, text[at:]])

    found = {name: resolved(name, text) for name, text in asked.items()}
    return Resolved({**properties, **found}, frozenset(secrets))


def _provider(word: str, properties: Mapping[str, str]) -> Lookup | None:
    """Return the function that looks values up in the provider with the name `word`; None if the properties give no
    class for that name. Raises InvalidConfig if kcli does not have the class, or a parameter of the provider is
    invalid."""
    prefix = f"{PROVIDERS}.{word}"
    name = java_trim(properties.get(f"{prefix}.class", ""))
    if not name:
        return None
    make = _CLASSES.get(name.removeprefix(f"{_PACKAGE}."))
    if make is None or not name.startswith(f"{_PACKAGE}."):
        raise InvalidConfig(f"{prefix}.class: only {', '.join(_CLASSES)} of {_PACKAGE} are there")
    return make(f"{prefix}.param.", properties)


class _AllowedPaths:
    """The paths that a provider may read, by its parameter allowed.paths. Raises InvalidConfig for a path that is not
    absolute or does not exist."""

    def __init__(self, prefix: str, properties: Mapping[str, str]) -> None:
        name = f"{prefix}allowed.paths"
        text = properties.get(name, "")
        self._allowed = [PurePath(os.path.normpath(each)) for each in text.split(",") if each] if text else None
        for each in self._allowed or ():
            if not each.is_absolute():
                raise InvalidConfig(f"{name}: {each} is not absolute")
            if not Path(each).exists():
                raise InvalidConfig(f"{name}: {each} does not exist")

    def check(self, text: str) -> Path:
        """Return `text` as a path. Raises InvalidConfig if it is empty or the provider may not read it."""
        if not text or "\0" in text:
            raise InvalidConfig("the provider needs a path")
        if self._allowed is None:
            return Path(text)
        path = Path(os.path.normpath(text))
        if not any(path.is_relative_to(each) for each in self._allowed):
            raise InvalidConfig(f"allowed.paths of the provider has not {text}")
        return path


def _file(prefix: str, properties: Mapping[str, str]) -> Lookup:
    allowed = _AllowedPaths(prefix, properties)
    read: dict[Path, Mapping[str, str]] = {}

    def lookup(path_text: str, key: str) -> str | None:
        path = allowed.check(path_text)
        if path not in read:
            try:
                read[path] = read_properties(path)
            except UnreadableInput as error:
                raise InvalidConfig(str(error)) from None
        return read[path].get(key)

    return lookup


def _directory(prefix: str, properties: Mapping[str, str]) -> Lookup:
    allowed = _AllowedPaths(prefix, properties)

    def lookup(path_text: str, key: str) -> str | None:
        path = allowed.check(path_text) / key
        if PurePath(key).name != key or not path.is_file():
            return None
        try:
            return path.read_text()
        except OSError as error:
            raise InvalidConfig(f"{path}: {error_text(error)}") from None
        except ValueError:
            raise InvalidConfig(f"{path}: not a text in UTF-8") from None

    return lookup


def _environment(prefix: str, properties: Mapping[str, str]) -> Lookup:
    name = f"{prefix}allowlist.pattern"
    try:
        allowed = compile_linear(properties[name]) if name in properties else None
    except PatternError as error:
        raise InvalidConfig(f"{name}: {error}") from None

    def lookup(path_text: str, key: str) -> str | None:
        if path_text:
            raise InvalidConfig("the provider of environment variables takes no path")
        return os.environ.get(key) if allowed is None or allowed.fullmatch(key) else None

    return lookup


_CLASSES: Final[Mapping[str, Callable[[str, Mapping[str, str]], Lookup]]] = {
    "FileConfigProvider": _file,
    "DirectoryConfigProvider": _directory,
    "EnvVarConfigProvider": _environment,
}
