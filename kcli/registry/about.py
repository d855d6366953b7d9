"""The registry itself: its contexts, its version, its cluster."""

from __future__ import annotations

from kcli.registry import errors, names
from kcli.registry.calls import Call
from kcli.registry.messages import Change
from kcli.registry.records import context_key
from kcli.service.json_text import pruned
from kcli.service.messages import Answer


def root(call: Call) -> Answer:
    """Return an empty object: clients send this request to find out whether the registry runs."""
    return call.answer({})


def list_contexts(call: Call) -> Answer:
    """Return the names of the contexts, only those that begin with the parameter `contextPrefix` if it is given."""
    prefix = call.text("contextPrefix")
    found = [each for each in (names.DEFAULT_CONTEXT, *call.image.contexts()) if each.startswith(prefix)]
    return call.answer(call.page(found))


def delete_context(call: Call, context: str) -> Change:
    """Delete a context without subjects. Errors: 42211."""
    name = names.normalize(context)
    if call.image.has_subjects(name, deleted=True):
        raise errors.context_not_empty(name)
    return Change([(context_key(names.context_of(name)), None)], Answer(204, b"", ""))


def cluster_id(call: Call) -> Answer:
    """Return Kafka's cluster id and the group that elects the leader."""
    clusters = {"kafka-cluster": call.identity.kafka_cluster_id, "schema-registry-cluster": call.identity.group_id}
    return call.answer({"scope": {"path": [], "clusters": clusters}})


def deployment(call: Call) -> Answer:
    """Return no attributes: this registry is in none of Confluent's deployments."""
    return call.answer({"attributes": []})


def version(call: Call) -> Answer:
    """Return the version of Confluent's registry whose API this registry has."""
    return call.answer(pruned({"version": call.identity.version, "commitId": call.identity.commit_id}))
