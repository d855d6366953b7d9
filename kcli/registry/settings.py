"""The configuration and the mode that apply to a subject: its own, its context's, the global ones, or the default.

    configuration   the subject's own; fields that it does not set come from the global one
    else            the context's; the global one for the default context
    else            that of `:.__GLOBAL:`
    else            only the default compatibility level

A mode is searched in the same places; the first one found applies.
"""

from __future__ import annotations

from kcli.registry import names
from kcli.registry.image import Image
from kcli.registry.records import Config

READWRITE = "READWRITE"
_INHERITED = (
    "normalize",
    "validateFields",
    "validateNewSchemas",
    "validateRules",
    "compatibilityPolicy",
    "compatibilityGroup",
)


def own_config(image: Image, subject: str | None, default_level: str) -> Config | None:
    """Return the configuration of a subject itself. For the global one, return the default if nothing is configured."""
    config = image.configs.get(subject)
    if config is not None:
        return _with_level(config, default_level)
    if subject is None or names.context_of(subject) == names.GLOBAL_CONTEXT:
        return {"compatibilityLevel": default_level}
    return None


def config_in_scope(image: Image, subject: str | None, default_level: str) -> Config:
    """Return the configuration that applies to a subject."""
    own = own_config(image, subject, default_level) if subject is not None else None
    if own is None:
        return _scoped_config(image, subject, default_level)
    above = own_config(image, None, default_level) or {}
    inherited = {name: above[name] for name in _INHERITED if name in above and name not in own}
    return {**own, **inherited}


def _scoped_config(image: Image, subject: str | None, default_level: str) -> Config:
    for each in _scopes(subject):
        config = image.configs.get(each)
        if config is not None:
            return _with_level(config, default_level)
    return {"compatibilityLevel": default_level}


def _with_level(config: Config, default_level: str) -> Config:
    return config if "compatibilityLevel" in config else {**config, "compatibilityLevel": default_level}


def _scopes(subject: str | None) -> tuple[str | None, ...]:
    return subject, names.context_prefix(subject) or None, names.GLOBAL_PREFIX


def own_mode(image: Image, subject: str | None) -> str | None:
    """Return the mode of a subject itself. For the global one, return the default if none is set."""
    mode = image.modes.get(subject)
    if mode is None and (subject is None or names.context_of(subject) == names.GLOBAL_CONTEXT):
        return READWRITE
    return mode


def mode_in_scope(image: Image, subject: str | None) -> str:
    """Return the mode that applies to a subject."""
    for each in _scopes(subject):
        mode = image.modes.get(each)
        if mode is not None:
            return mode
    return READWRITE


def is_read_only(image: Image, subject: str | None) -> bool:
    """Whether the mode that applies to a subject forbids all writes."""
    return mode_in_scope(image, subject) in ("READONLY", "READONLY_OVERRIDE")


def is_importing(image: Image, subject: str | None) -> bool:
    """Whether schemas come in with the ids and versions that they have elsewhere."""
    return mode_in_scope(image, subject) in ("IMPORT", "FORWARD")
