"""The schema in a request's body, and the form of a schema in an answer that the query asks for."""

from __future__ import annotations

from kcli.registry import errors, lookups, names
from kcli.registry.calls import Call
from kcli.registry.drafts import Draft, draft_of
from kcli.registry.messages import Operation
from kcli.schemas.schema import Reference


def requested(call: Call, subject: str, parameter: str) -> Draft:
    """Return the schema in the body. Raises RestError, also if it refers to a subject that the user may not read, as
    the resolved form of the schema would show that subject's text."""
    draft = draft_of(names.normalize(subject), call.json(parameter))
    if draft is None:
        raise errors.missing_body(parameter)
    for each in draft.references:
        referenced = names.qualify(draft.subject, each.subject)
        if not call.may_read(referenced):
            raise errors.denied(Operation.READ, referenced)
    return draft


def formatted(call: Call, draft: Draft) -> Draft:
    """Return a schema with its text in the form that the query's `format` names. Raises RestError: 42201."""
    form = call.text("format").strip()
    if not form or draft.text is None:
        return draft
    return draft._replace(text=lookups.parse(call.image, draft, is_new=False).formatted(form))


def with_qualified_references(call: Call, draft: Draft) -> Draft:
    """Return a schema of a context with the subjects of its references qualified, if the query's `referenceFormat` asks
    for it; otherwise return it unchanged."""
    is_asked = call.text("referenceFormat") == "qualified"
    if not is_asked or not draft.references or names.context_of(draft.subject) == names.DEFAULT_CONTEXT:
        return draft
    references = [
        Reference(each.name, names.qualify(draft.subject, each.subject), each.version) for each in draft.references
    ]
    return draft._replace(references=references)
