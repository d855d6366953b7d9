"""What a missing, damaged or foreign meta.properties should have, as far as other files know it.

A meta.properties is foreign if its directory.id is one that the node of the other log directories has registered, but
its cluster.id or node.id differs from theirs.

    version        1
    cluster.id     the one of the node's other log directories, else the one that is legible in the file; if neither has
                   it and the cluster has no other node, a new one, as no other node or file has the old one
    node.id        the first of these that is known: the one in server.properties; the one of the other log directories;
                   the one that is legible in the file, if the metadata has a broker or controller with this id, or has
                   no broker and no controller; the id of the only broker in the metadata
    directory.id   the one that `directory_ids` found for the directory, else the one that is legible in the file unless
                   the node has not registered it, or another of its log directories has it

Source: MetaPropertiesEnsemble.verify; KIP-858.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from formats import properties
from formats.errors import FormatError
from formats.file_name import METADATA_DIRECTORY, FileKind
from formats.properties import MetaProperties, Properties
from kcli.errors import UnreadableInput
from kcli.log.log_directory import read_meta_properties, unusable
from kcli.log.recovery.node_directories import NodeDirectories, legible_meta_of, meta_of
from kcli.metadata.image import MetadataImage
from kcli.metadata.partition import to_uuid

NEW_CLUSTER_ID = ""
"""Used in place of a cluster.id that no file has: a new one may be chosen."""


def known_properties(
    node: NodeDirectories,
    server: Mapping[str, str],
    image: MetadataImage,
    directory_id: str | None,
    other_voters: Collection[int],
) -> MetaProperties | None:
    """Return what meta.properties of `node.directory` should have; None if the file is there, sound and this log
    directory's own, or if the right ids are not known. A directory of that name counts as a missing file.

    server: the entries of server.properties. image: the metadata. directory_id: the id that is registered for the
    directory; None if that is not known. other_voters: the voters in quorum-state except this node. The cluster.id is
    NEW_CLUSTER_ID if no file has it and the cluster has no other node. Raises UnreadableInput.
    """
    path = node.directory / FileKind.META_PROPERTIES
    try:
        meta = read_meta_properties(node.directory)
    except FormatError:
        meta = None
    except UnreadableInput:
        if not path.is_dir():
            raise
        meta = None
    beside = [found for each in node.others if (found := meta_of(each)) is not None and unusable(found) is None]
    if meta is not None and unusable(meta) is None:
        is_home = len(beside) == 1 and (node.directory / METADATA_DIRECTORY).is_dir()
        # if two log directories differ only in cluster.id, the one without the metadata log is the foreign one
        is_sure = not is_home or meta.node_id != beside[0].node_id
        return _as_registered(meta, beside, image) if is_sure else None
    if path.exists() and not (path.is_file() or path.is_dir()):
        return None
    legible = legible_meta_of(node.directory)
    members = {*image.brokers, *image.controllers}
    is_known = legible.node_id in members or not members
    nodes = {each.node_id for each in beside} or ({legible.node_id} if is_known else {*image.brokers})
    ids = {_number(server.get("node.id", ""))} - {None} or nodes
    if len(ids) != 1 or (node_id := ids.pop()) is None:
        return None
    clusters = {each.cluster_id for each in beside} or {legible.cluster_id} - {None}
    known = {*members, *other_voters, *voters_of(server)}
    if not clusters and known == {node_id}:
        clusters = {NEW_CLUSTER_ID}
    if len(clusters) != 1:
        return None
    known_id = directory_id or _legible_id(legible.directory_id, node_id, beside, image)
    return MetaProperties(1, clusters.pop(), node_id, known_id)


def _legible_id(
    legible: str | None, node_id: int, beside: Collection[MetaProperties], image: MetadataImage
) -> str | None:
    """Return `legible`, the directory.id that is legible in a damaged file; None if it is not valid, if another log
    directory of the node has it, or if node `node_id` has registered directories, but not this one. beside: the
    meta.properties of the node's other log directories."""
    if unusable(MetaProperties(1, "", node_id, legible)) or legible in {each.directory_id for each in beside}:
        return None
    broker = image.brokers.get(node_id)
    registered = () if broker is None else broker.directories
    return legible if legible is None or not registered or to_uuid(legible) in registered else None


def _as_registered(
    meta: MetaProperties, beside: Collection[MetaProperties], image: MetadataImage
) -> MetaProperties | None:
    """Return what a foreign meta.properties (see the module) should have; None if `meta` is not foreign, or if the
    other log directories do not agree on cluster.id and node.id. meta: the content of the file. beside: the
    meta.properties of the node's other log directories."""
    owners = {(each.cluster_id, each.node_id) for each in beside}
    if len(owners) != 1 or meta.directory_id is None or meta.directory_id in {each.directory_id for each in beside}:
        return None
    ((cluster_id, node_id),) = owners
    broker = image.brokers.get(-1 if node_id is None else node_id)
    is_registered = broker is not None and to_uuid(meta.directory_id) in broker.directories
    if not is_registered or (meta.cluster_id, meta.node_id) == (cluster_id, node_id):
        return None
    others = {to_uuid(each.directory_id) for each in beside if each.directory_id is not None}
    if broker is None or not others & {*broker.directories}:
        return None
    return MetaProperties(1, cluster_id, node_id, meta.directory_id)


def text_of(known: MetaProperties, cluster_id: str | None = None) -> str:
    """Return the text of a meta.properties. cluster_id: the id to write in place of NEW_CLUSTER_ID."""
    entries = {"version": str(known.version), "cluster.id": cluster_id or known.cluster_id or ""}
    entries["node.id"] = str(known.node_id)
    if known.directory_id is not None:
        entries["directory.id"] = known.directory_id
    return properties.build(Properties(entries)).decode()


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 10 else None


def voters_of(server: Mapping[str, str]) -> Collection[int]:
    """The node ids in controller.quorum.voters. server: the entries of server.properties."""
    found = (_number(each.strip().partition("@")[0]) for each in server.get("controller.quorum.voters", "").split(","))
    return {each for each in found if each is not None}
