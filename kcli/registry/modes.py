"""/mode: whether schemas can be registered, in all subjects, in the subjects of a context, or in one subject.

READWRITE           yes
READONLY            no; READONLY_OVERRIDE likewise
IMPORT              only with an id, unchecked: a subject must be empty to change into it
FORWARD             as IMPORT, for schemas that another registry sends; only as the global mode
"""

from __future__ import annotations

from kcli.registry import errors, names, settings
from kcli.registry.calls import Call
from kcli.registry.fields import as_object, as_text
from kcli.registry.image import Image
from kcli.registry.messages import Change
from kcli.registry.records import MODES, Record, clear_subject_value, mode_value, schema_key, subject_key
from kcli.service.messages import Answer


def _subject(subject: str | None) -> str | None:
    return None if subject is None or names.is_default_context(subject) else names.normalize(subject)


def get_mode(call: Call, subject: str | None = None) -> Answer:
    """Return the mode. Errors: 40409."""
    name = _subject(subject)
    if call.flag("defaultToGlobal"):
        return call.answer({"mode": settings.mode_in_scope(call.image, name)})
    mode = settings.own_mode(call.image, name)
    if mode is None:
        raise errors.mode_not_set(name)
    return call.answer({"mode": mode})


def put_mode(call: Call, subject: str | None = None) -> Change:
    """Set the mode; null removes it. Errors: 42204, 42205, 42206, 42208."""
    fields = as_object(call.json("updateMode.request"), "ModeUpdateRequest")
    if fields is None:
        raise errors.missing_body("updateMode.request")
    if subject is not None and not names.is_valid(subject, for_settings=True):
        raise errors.invalid_subject(subject)
    name = _subject(subject)
    requested = as_text(fields.get("mode"))
    if "mode" not in fields or (requested is not None and requested.upper() not in MODES):
        raise errors.invalid_mode()
    if requested == "FORWARD" and not names.is_global_context(name):
        raise errors.invalid_mode("Forward mode only supported on global level")
    _check_mutable(call)
    mode = None if requested is None else requested.upper()
    records = _cleared(call.image, name) if mode == "IMPORT" and not call.flag("force") else []
    records.append((subject_key("MODE", name), None if mode is None else mode_value(name, mode)))
    return call.change(records, {"mode": requested})


def _check_mutable(call: Call) -> None:
    if not call.limits.mode_mutability:
        raise errors.not_permitted("Mode changes are not allowed")


def _cleared(image: Image, name: str | None) -> list[Record]:
    """Return the records that take away soft-deleted versions before schemas are imported. Raises RestError."""
    if settings.mode_in_scope(image, name) == "IMPORT":
        return []
    if image.has_subjects(name, deleted=False):
        raise errors.not_permitted("Cannot import since found existing subjects")
    records: list[Record] = []
    for subject in image.subjects_in(name, deleted=True):
        for each in image.versions(subject):
            if image.referrers(subject, each.version, deleted=True):
                raise errors.reference_exists(subject, each.version)
            records.append((schema_key(subject, each.version), None))
    records.append((subject_key("CLEAR_SUBJECT", name), clear_subject_value(name)))
    return records


def delete_mode(call: Call, subject: str | None = None) -> Change:
    """Remove a mode; the answer has its former value. The parameter `recursive` also removes the modes of a context's
    subjects. Errors: 40401, 42205."""
    name, recursive = _subject(subject), call.flag("recursive")
    mode = settings.own_mode(call.image, name)
    if mode is None and not recursive:
        raise errors.subject_not_found(name)
    _check_mutable(call)
    records: list[Record] = [(subject_key("MODE", name), None)]
    if recursive and (name is None or not names.parse(name).subject):
        records += [(subject_key("MODE", each), None) for each in _under(call.image, name)]
    return call.change(records, {} if mode is None else {"mode": mode})


def _under(image: Image, context: str | None) -> list[str]:
    wanted = names.context_of(context)
    found = (each for each in image.modes if each is not None and names.parse(each).subject)
    return sorted(
        (each for each in found if names.context_of(each) == wanted), key=lambda each: names.parse(each).order
    )
