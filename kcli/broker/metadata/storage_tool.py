"""`kcli format`: it has the options of `kafka-storage format`, reads a server.properties, and refuses what Kafka
refuses.

    features    those of --release-version, or of 4.3; --feature replaces single features
    quorum      static    controller.quorum.voters, which is not written to disk
                dynamic   --standalone or --initial-controllers: kraft.version 1, and the voters in a first snapshot of
                          the metadata log (KIP-853), which has each voter's directory.id
                observer  --no-initial-controllers: the node fetches the voters from other nodes
    users       --add-scram: their records follow the features in bootstrap.checkpoint
    formatted   directories that have meta.properties; a second run skips them only with --ignore-formatted

Messages are Kafka's. Source: StorageTool, Formatter, DynamicVoters; KIP-853, KIP-900, KIP-1022.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import AddressValueError, IPv6Address
from pathlib import Path
from string import ascii_letters, digits
from typing import Final

from formats.file_name import FileKind
from kcli.broker.config import BrokerConfig
from kcli.broker.metadata.format import FirstVoters, format_directories, random_id
from kcli.broker.metadata.quorum_config import BOOTSTRAP, VOTERS
from kcli.errors import KcliError, UsageError
from kcli.java.values import java_integer
from kcli.log.disk import Disk
from kcli.metadata.features import NEEDS_METADATA_VERSION, SUPPORTED_FEATURES, first_levels
from kcli.metadata.image import KRAFT_VERSION, METADATA_VERSION, Record
from kcli.metadata.metadata_version import LATEST, LEVELS, SCRAM, level_name, level_of
from kcli.metadata.scram_control import credential_record
from kcli.raft.voters import Endpoint, ReplicaKey, VoterNode, VoterSet
from kcli.security.scram_argument import parse_scram_argument

PORT_MAX: Final = 65_535
ID_CHARACTERS: Final = frozenset(ascii_letters + digits + "_-")
ID_LENGTH: Final = 22
_FLAGS: Final = "--standalone, --initial-controllers, or --no-initial-controllers"


class FormatRefused(KcliError):
    """The log directories cannot be formatted with these options."""


@dataclass(frozen=True, slots=True)
class FormatOptions:
    """The options of `kafka-storage format`. features: a text `name=level` for each. initial_controllers: None without
    that option. scram_users: the texts of --add-scram, see kcli.security.scram_argument. `repr` leaves out the
    passwords."""

    cluster_id: str
    ignore_formatted: bool = False
    release_version: str | None = None
    features: Sequence[str] = ()
    standalone: bool = False
    no_initial_controllers: bool = False
    initial_controllers: str | None = None
    scram_users: Sequence[str] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class FormattedDirectory:
    """A log directory that was formatted. kind: Kafka's name for what the directory is used for."""

    path: Path
    kind: str
    metadata_version: str


def format_node(config: BrokerConfig, options: FormatOptions, *, now_ms: int, disk: Disk) -> list[FormattedDirectory]:
    """Format the log directories of a server.properties. Return those that were not formatted before.

    Raises UsageError, FormatRefused, NotThisNode, StartRefused, UnreadableInput, OSError.
    """
    voters = _voters(config, options)
    levels = _levels(options, may_be_dynamic=not config.words(VOTERS), is_dynamic=voters is not None)
    users = _users(options.scram_users, levels[METADATA_VERSION])
    metadata = Path(config.metadata_log_dir)
    directories = list(dict.fromkeys([*map(Path, config.log_dirs), metadata]))
    new = [each for each in directories if not (each / FileKind.META_PROPERTIES).exists()]
    if len(new) < len(directories) and not options.ignore_formatted:
        formatted = next(each for each in directories if each not in new)
        raise FormatRefused(
            f"Log directory {formatted} is already formatted. Use --ignore-formatted to ignore this directory and "
            "format the others."
        )
    own = None if voters is None else voters.nodes.get(config.node_id)
    format_directories(
        directories,
        now_ms=now_ms,
        node_id=config.node_id,
        cluster_id=options.cluster_id,
        levels=levels,
        users=users,
        directory_ids={} if own is None else {metadata: own.key.written_directory},
        first_voters=None if voters is None else FirstVoters(metadata, voters),
        disk=disk,
    )
    voter = "" if own is None else "voter "
    kind = "metadata directory" if voters is None else f"dynamic metadata {voter}directory"
    version = level_name(levels[METADATA_VERSION])
    return [FormattedDirectory(each, kind if each == metadata else "data directory", version) for each in new]


def _users(arguments: Sequence[str], metadata_version: int) -> list[Record]:
    if arguments and metadata_version < SCRAM:
        raise UsageError(f"SCRAM is only supported in {METADATA_VERSION} {level_name(SCRAM)} or later.")
    users = map(parse_scram_argument, arguments)
    return [credential_record(each.name, each.mechanism.code, each.credential) for each in users]


def _voters(config: BrokerConfig, options: FormatOptions) -> VoterSet | None:
    """Return the voters to write to a first snapshot of the metadata log; None if the options ask for no such snapshot.
    Raises UsageError."""
    is_static = bool(config.words(VOTERS))
    if is_static and (options.standalone or options.initial_controllers is not None):
        raise UsageError(
            f"You cannot specify {VOTERS} and format the node with --initial-controllers or --standalone. If you want "
            f"to use dynamic quorum, please remove {VOTERS} and specify {BOOTSTRAP} instead."
        )
    if options.initial_controllers is not None:
        return parse_initial_controllers(options.initial_controllers, config.controller_listener_names[0])
    if options.standalone:
        if not config.is_controller:
            raise UsageError("You can only use --standalone on a controller.")
        listener = config.advertised_controller_listeners[0]
        where = Endpoint(listener.listener, listener.host or "localhost", listener.port)
        return VoterSet.of([_voter(config.node_id, random_id(), where)])
    if config.is_controller and not is_static and not options.no_initial_controllers:
        raise UsageError(
            f"Because {VOTERS} is not set on this controller, you must specify one of the following: {_FLAGS}."
        )
    return None


def parse_initial_controllers(text: str, listener: str) -> VoterSet:
    """Return the voters of `id@host:port:directory,...`, with their endpoints for that listener. Raises UsageError."""
    words = [each.strip() for each in text.split(",") if each.strip()]
    voters = [_parse_voter(word, listener) for word in words]
    if not voters:
        raise UsageError("--initial-controllers: No voters given.")
    ids = [each.key.id for each in voters]
    for each in ids:
        if ids.count(each) > 1:
            raise UsageError(f"--initial-controllers: Node id {each} was specified more than once.")
    return VoterSet.of(voters)


def _parse_voter(word: str, listener: str) -> VoterNode:
    node, _, rest = word.partition("@")
    address, _, directory_id = rest.rpartition(":")
    host, _, port_text = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif not frozenset("[:]").isdisjoint(host):
        host = ""
    node_id, port = java_integer(node), java_integer(port_text)
    is_id = len(directory_id) == ID_LENGTH and ID_CHARACTERS.issuperset(directory_id)
    if node_id is None or node_id < 0 or port is None or not 0 <= port <= PORT_MAX or not host or not is_id:
        raise UsageError(f"--initial-controllers: {word!r} is not id@host:port:directory")
    return _voter(node_id, directory_id, Endpoint(listener, _java_host(host), port))


def _java_host(host: str) -> str:
    """Return a host name unchanged, and an IPv6 address in eight parts, as Java prints it."""
    try:
        parts = IPv6Address(host).exploded.split(":")
    except AddressValueError:
        return host
    return ":".join(f"{int(part, 16):x}" for part in parts)


def _voter(node_id: int, directory_id: str, where: Endpoint) -> VoterNode:
    least, most = SUPPORTED_FEATURES[KRAFT_VERSION]
    return VoterNode(ReplicaKey(node_id, directory_id), (where,), least, most)


def _levels(options: FormatOptions, *, may_be_dynamic: bool, is_dynamic: bool) -> dict[str, int]:
    """Return the levels of all features but kraft.version, in the order in which they are written. may_be_dynamic:
    whether controller.quorum.voters is not set. is_dynamic: whether the voters are written to a snapshot. Raises
    UsageError for a feature or level that cannot be set."""
    requested = _parse_features(options.features)
    version = _metadata_version(options.release_version, requested.pop(METADATA_VERSION, None))
    known = sorted(SUPPORTED_FEATURES.keys() - {METADATA_VERSION})
    for name in requested:
        if name not in known:
            raise UsageError(f"Unsupported feature: {name}. Supported features are: {', '.join(known)}")
    _check_kraft_version(requested, is_dynamic=is_dynamic or (may_be_dynamic and options.no_initial_controllers))
    for name in sorted(requested):
        level = requested[name]
        if not SUPPORTED_FEATURES[name].min <= level <= SUPPORTED_FEATURES[name].max:
            raise UsageError(f"No feature:{name} with feature level {level}")
        needed = NEEDS_METADATA_VERSION.get((name, level), 0)
        if version < needed:
            raise UsageError(
                f"{name} could not be set to {level} because it depends on {METADATA_VERSION} level {needed}"
            )
    requested.pop(KRAFT_VERSION, None)
    return {**first_levels(version), **requested}


def _parse_features(texts: Sequence[str]) -> dict[str, int]:
    levels = {}
    for text in texts:
        name, equals, number = text.partition("=")
        if not equals:
            raise UsageError(f"Can't parse feature=level string {text}: equals sign not found.")
        level = java_integer(number.strip(), 16)
        if level is None:
            raise UsageError(f"Can't parse feature=level string {text}: unable to parse {number.strip()} as a short.")
        levels[name.strip()] = level
    return levels


def _metadata_version(release: str | None, level: int | None) -> int:
    if release is None:
        if level is not None and level not in LEVELS:
            valid = f"Valid feature levels are from {min(LEVELS)} to {max(LEVELS)}."
            raise UsageError(f"No MetadataVersion with feature level {level}. {valid}")
        return LATEST if level is None else level
    found = level_of(release)
    if found is None:
        supported = ", ".join(name for name, _ in LEVELS.values())
        raise UsageError(f"Unknown {METADATA_VERSION} '{release}'. Supported {METADATA_VERSION} are: {supported}")
    if level is not None:
        raise UsageError(f"Use --release-version instead of --feature {METADATA_VERSION}=X to avoid ambiguity.")
    return found


def _check_kraft_version(requested: Mapping[str, int], *, is_dynamic: bool) -> None:
    level = requested.get(KRAFT_VERSION)
    if level is None or (level > 0) == is_dynamic:
        return
    condition = f"{VOTERS} is empty and one of the flags {_FLAGS} is used"
    if is_dynamic:
        raise UsageError(
            f"Cannot set {KRAFT_VERSION} to {level} if {condition}. For dynamic controllers support, try removing the "
            f"--feature flag for {KRAFT_VERSION}."
        )
    raise UsageError(
        f"Cannot set {KRAFT_VERSION} to {level} unless {condition}. For dynamic controllers support, try using one of "
        f"{_FLAGS} and removing {VOTERS}."
    )
