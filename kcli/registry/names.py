"""Names of subjects and of their contexts.

    s            subject `s` of the default context, whose name is `.`
    :.ctx:s      subject `s` of context `.ctx`
    :.ctx:       the context itself, which may have a configuration and a mode
    :.__GLOBAL:  all contexts: its configuration and mode hold for whatever has none of its own
    :*:s         subject `s` of any context, in queries

Source: the documentation of schema contexts in Confluent's Schema Registry.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from kcli.java.hashing import java_order

DEFAULT_CONTEXT = "."
GLOBAL_CONTEXT = ".__GLOBAL"
GLOBAL_PREFIX = f":{GLOBAL_CONTEXT}:"
WILDCARD = ":*:"
RESERVED_SUBJECTS = ("__GLOBAL", "__EMPTY")
NAMES_KEPT = 4096
TENANT = "default"
"""The tenant in keys of contexts."""


class Name(NamedTuple):
    """A subject's name in its context. subject: empty for the context itself."""

    context: str
    subject: str

    @property
    def qualified(self) -> str:
        """The name as one string: `:.ctx:subject`, only the subject in the default context."""
        return qualified_context(self.context) + self.subject

    @property
    def order(self) -> tuple[bytes, bytes]:
        """A sort key: by context, then by subject, as Java compares strings."""
        return java_order(self.context), java_order(self.subject)


@lru_cache(maxsize=NAMES_KEPT)
def parse(text: str) -> Name:
    """Return the parts of a qualified name."""
    if text.startswith(":."):
        context, colon, subject = text[1:].partition(":")
        return Name(context, subject if colon else "")
    if text.startswith(WILDCARD):
        return Name("*", text[len(WILDCARD) :])
    return Name(DEFAULT_CONTEXT, text)


def qualified_context(context: str) -> str:
    """Return the prefix of a context's subjects: `:.ctx:`, or "" for the default context."""
    return "" if context == DEFAULT_CONTEXT else f":{context}:"


def context_of(subject: str | None) -> str:
    """Return the context of a qualified subject; the default one for None."""
    return parse(subject).context if subject is not None else DEFAULT_CONTEXT


def context_prefix(subject: str | None) -> str:
    """Return the context's prefix in a qualified subject, `:.ctx:` or ""."""
    return qualified_context(context_of(subject))


def normalize(text: str) -> str:
    """Return a qualified name without a prefix for the default context: `:.:s` is `s`."""
    return parse(text).qualified


def normalize_context(context: str) -> str:
    """Return the prefix of the context that a URL names, with or without colons and dot.

    Raises ValueError for a context with a colon inside.
    """
    bare = context.removeprefix(":")
    bare = bare.removesuffix(":")
    if ":" in bare:
        raise ValueError(f"Context name '{bare}' cannot contain a colon")
    return qualified_context(bare if bare.startswith(".") else f".{bare}")


def qualify(parent: str, subject: str) -> str:
    """Return the qualified name of a subject that a schema of another subject (`parent`) refers to: it is in the
    parent's context, unless it names a context itself."""
    name = parse(subject)
    if name.context != DEFAULT_CONTEXT:
        return name.qualified
    return Name(context_of(parent), name.subject if subject.startswith(":.") else subject).qualified


def is_default_context(subject: str | None) -> bool:
    """Whether a name is that of the default context."""
    return subject is None or parse(subject) == (DEFAULT_CONTEXT, "")


def is_global_context(subject: str | None) -> bool:
    """Whether a name is that of the global context, whose configuration and mode hold for all other contexts."""
    return subject is not None and parse(subject) == (GLOBAL_CONTEXT, "")


def is_valid(subject: str, *, for_settings: bool = False) -> bool:
    """Whether schemas can be registered under a subject. for_settings: whether config and mode can be set for it."""
    if any(char < " " or "\x7f" <= char <= "\x9f" for char in subject):
        return False
    name = parse(subject)
    return name.subject not in RESERVED_SUBJECTS and (for_settings or name.context != GLOBAL_CONTEXT)


def covers(subject: str | None, other: str) -> bool:
    """Whether a name covers another subject: None and the global context cover all subjects, a context those in it."""
    if subject is None or subject == other:
        return True
    name = parse(subject)
    return not name.subject and name.context in (GLOBAL_CONTEXT, context_of(other))
