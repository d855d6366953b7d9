"""`kcli serve`: a Kafka 4.3 node in this process."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kcli.cli.options import pairs
from kcli.cli.output import note, write_text
from kcli.cli.temporary import temporary_directory
from kcli.errors import UsageError, needing
from kcli.printable import printable

if TYPE_CHECKING:
    from kcli.broker.node import Node
    from kcli.broker.startup.secure import Secured
    from kcli.launcher.directory import ClusterDirectory, ClusterRequest
    from kcli.registry.server import RegistryServer

Address = tuple[str, int]
DEFAULT_ADDRESS: Address = ("127.0.0.1", 9092)

EPILOG = """
Examples:

    kcli serve                                     on 127.0.0.1:9092, with a temporary directory

    kcli serve --data-dir data --listen 0.0.0.0:9092 --advertise kafka.test:9092

    kcli serve --listen 127.0.0.1:0 -o num.partitions=3 -o auto.create.topics.enable=false

    kcli serve --config server.properties          Kafka's own file

    kcli serve --secure --data-dir data            TLS, an admin and ACLs; tells how to connect

    kcli serve --insecure --data-dir data          the same directory, open to everybody

    kcli serve --secure --nodes 3 --data-dir cluster

    kcli serve --nodes 3                           a cluster on 127.0.0.1:9092 and the next ports

    kcli serve --nodes 3 --controllers 3 --data-dir cluster --listen 127.0.0.1:0

    kcli serve --nodes 3 --config server.properties  the listeners and the security of Kafka's file, for every node

    kcli serve --registry 127.0.0.1:8081           with a schema registry in the same process

    kcli serve --read-only --data-dir /backup/kafka  any log directory, also a damaged one or one in use
"""


class LogFormat(StrEnum):
    """The format of log lines."""

    TEXT = "text"
    JSON = "json"


def serve(  # noqa: PLR0913, PLR0917 (one parameter an option)
    data_dir: Annotated[
        Path | None, typer.Option(help="Log directory, formatted if it is new. Default: a temporary one.")
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Address for clients; port 0: any free one. [127.0.0.1:9092]"),
    ] = None,
    advertise: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Address that clients connect to, if not that of --listen.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", exists=True, dir_okay=False, help="Kafka's server.properties.")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option("-o", metavar="NAME=VALUE", help="A broker configuration; may be repeated.")
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Serve what is there and change not a byte; writes are refused.")
    ] = False,
    secure: Annotated[
        bool, typer.Option("--secure", help="TLS, an admin who logs in, ACLs; certificates and password are made.")
    ] = False,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Serve open to everybody what --secure has closed.")
    ] = False,
    allow_strays: Annotated[
        bool,
        typer.Option("--allow-strays", help="Start though a damaged metadata log no longer names some partitions."),
    ] = False,
    nodes: Annotated[
        int | None,
        typer.Option("--nodes", min=1, max=99, metavar="N", help="A cluster of so many brokers, a process each."),
    ] = None,
    controllers: Annotated[
        int,
        typer.Option(
            "--controllers", min=0, max=9, metavar="M", help="With --nodes: controllers apart from the brokers."
        ),
    ] = 0,
    no_restart: Annotated[
        bool, typer.Option("--no-restart", help="With --nodes: leave a node that has died as it is.")
    ] = False,
    registry: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Run a schema registry, too, at this address; port 0: any free one."),
    ] = None,
    registry_config: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="With --registry: Confluent's schema-registry.properties."),
    ] = None,
    log_format: Annotated[LogFormat, typer.Option(help="How log lines on stderr look.")] = LogFormat.TEXT,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Log more.")] = False,
) -> None:
    """Run a Kafka 4.3 node: broker and controller in one process, no JVM.

    Prints one line on stdout when it is ready; logs go to stderr. SIGTERM or SIGINT ends it in order, a second one at
    once. Real Kafka can start on the data directory, and kcli serve on one of Kafka's.

    With --nodes it runs a cluster on this machine: each node is a process with its own directory below --data-dir, and
    one line on stdout says that all are ready. --listen is the address of the first broker. A cluster that exists in
    the directory is started with the same nodes and ports, also without --nodes. The configurations in --config apply
    to all nodes, except ids, roles, directories and ports. `kcli cluster` shows, kills and restarts nodes.

    With --secure clients connect by TLS and log in (SCRAM), and only the admin may do anything until `kcli acls` allows
    it. The first start makes certificates and the admin's client.properties in DIR-secure beside the data, later ones
    use them again. The nodes of --nodes connect to each other by TLS, too, and log in. If a single node's data
    directory was formatted without --secure, the start adds the admin to its metadata log. After a start with --secure,
    one without it needs --insecure or --config; the nodes of a cluster stay secure.

    With --registry a schema registry serves beside the broker and keeps its schemas in the topic _schemas, see
    `kcli registry`. With --secure, it serves https, its users are the broker's, and only the admin may use it until
    --registry-config has an ACL file.

    With --read-only the data directory may be any that has partitions in it, or a partition's own directory: crashed,
    damaged, without metadata, or in use by a running Kafka. Every sound record is served, also behind damage. No file
    is created or changed.
    """
    from kcli.broker.process.log_lines import set_up_logging
    from kcli.launcher.paths import is_cluster

    json_lines = log_format is LogFormat.JSON
    set_up_logging(json_lines=json_lines, verbose=verbose)
    options = pairs(option, "-o")
    listen_address = None if listen is None else _address(listen, "--listen")
    advertised_address = None if advertise is None else _address(advertise, "--advertise")
    is_known = data_dir is not None and not read_only and is_cluster(data_dir)
    if secure and insecure:
        raise UsageError("--secure and --insecure exclude each other")
    # an existing cluster needs no check: it keeps its listeners and their security even without --secure
    if not (secure or insecure or config is not None or is_known):
        _check_not_closed(data_dir, options, nodes, read_only=read_only)
    if registry_config is not None and registry is None:
        raise UsageError("--registry-config: only with --registry")
    if registry is not None and (read_only or nodes is not None or is_known):
        raise UsageError("--registry: in the process of one node that may write; kcli registry serves any cluster")
    beside = None if registry is None else Beside(registry, registry_config)
    if nodes is not None or is_known:
        from kcli.launcher.directory import ClusterRequest

        if advertised_address is not None or read_only or allow_strays:
            raise UsageError("--nodes: --advertise, --read-only and --allow-strays are of one node")
        if secure and config is not None:
            raise UsageError("--secure makes a configuration of its own: without --config")
        request = ClusterRequest(nodes, controllers, listen_address, options, _file(config), secure=secure)
        _serve_nodes(data_dir, request, restart=not no_restart, json_lines=json_lines)
        return
    if controllers or no_restart:
        raise UsageError("--controllers and --no-restart: only with --nodes")
    if secure:
        if config is not None or read_only:
            raise UsageError("--secure makes a configuration of its own: without --config and --read-only")
        _serve_secured(data_dir, listen_address, advertised_address, options, beside, allow_strays=allow_strays)
        return
    _serve_node(
        data_dir,
        listen_address,
        advertised_address,
        config,
        options,
        beside,
        read_only=read_only,
        allow_strays=allow_strays,
    )


def _check_not_closed(data_dir: Path | None, options: Mapping[str, str], nodes: int | None, *, read_only: bool) -> None:
    """Raise UsageError if a directory that is to be served without --secure was served with --secure before.

    data_dir: the directory; None for those of log.dirs or log.dir in `options`. nodes, read_only: as on the command
    line, for the command that the error proposes.
    """
    from kcli.broker.startup.secure import beside, is_closed

    named = options.get("log.dirs", options.get("log.dir", "")).split(",")
    given = [data_dir] if data_dir is not None else [Path(each.strip()) for each in named if each.strip()]
    for each in filter(is_closed, given):
        way = "--read-only --insecure" if read_only else "--secure" if nodes is None else f"--secure --nodes {nodes}"
        raise UsageError(
            f"{each}: {beside(each)} has closed it, and without --secure it is open to everybody: --insecure says so. "
            f"Next: kcli serve {way} --data-dir {shlex.quote(str(each))}"
        )


class Beside:
    """The registry that --registry starts beside the broker. address, config: the values of --registry and
    --registry-config."""

    def __init__(self, address: str, config: Path | None) -> None:
        """Read the configuration. Raises UsageError, UnreadableInput."""
        from kcli.cli.registry import registry_properties

        host, port = _address(address, "--registry")
        self._properties = {"kafkastore.topic.replication.factor": "1", **registry_properties(config, {})}
        self._named = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._secured: Secured | None = None
        self._check()

    def secure(self, secured: Secured) -> None:
        """Close the registry as --secure closes the node. Raises UsageError."""
        self._secured = secured
        closed = {name: value for name, value in secured.properties.items() if name.startswith("ssl.")}
        closed |= {"authentication.method": "BASIC", "authentication.scram": "true", "super.users": "admin"}
        self._properties = {**closed, **self._properties}
        self._check()

    def _check(self) -> None:
        with needing("registry"):
            from kcli.registry.config import registry_config

        scheme = "http" if self._secured is None else "https"
        self.config = registry_config({**self._properties, "listeners": f"{scheme}://{self._named}"})

    async def start(self, node: Node) -> RegistryServer:
        """Start the registry, and show its line. Raises KcliError, OSError."""
        from kcli.registry.in_broker import start_beside

        client = None
        if self.config.client or self._secured is not None:
            from kcli.client.command_config import librdkafka_properties, read_command_config
            from kcli.client.security import security_of
            from kcli.service.outbound import outbound_of

            if self.config.client:
                properties = librdkafka_properties(self.config.client)
            else:
                assert self._secured is not None
                properties = read_command_config(self._secured.directory.client)
            client = outbound_of(security_of(properties))
        server = await start_beside(node, self.config, client)
        write_text(f"  schema registry {','.join(server.urls)}\n")
        return server


def _serve_node(
    data_dir: Path | None,
    listen_address: Address | None,
    advertised_address: Address | None,
    config: Path | None,
    options: dict[str, str],
    beside: Beside | None,
    *,
    read_only: bool,
    allow_strays: bool,
) -> None:
    from kcli.broker.config.single_node import single_node_config
    from kcli.broker.startup.serve import serve as run

    file = _file(config)
    companion = None if beside is None else beside.start
    if beside is not None:
        options.setdefault("group.initial.rebalance.delay.ms", "0")  # or the registry would lead after three seconds
    has_directory = data_dir is not None or "log.dirs" in options or (file is not None and _names_directory(file))
    if read_only:
        if not has_directory:
            raise UsageError("--read-only serves an existing directory: give --data-dir, or log.dirs")
        if file is None and data_dir is not None and "node.id" not in options:
            from kcli.broker.read_only.node import known_node_id

            options["node.id"] = str(known_node_id([data_dir]))
        run(single_node_config(data_dir, listen_address, advertised_address, file, options), _ready, read_only=True)
        return
    if has_directory:
        node = single_node_config(data_dir, listen_address, advertised_address, file, options)
        run(node, _ready, joinable=file is not None, allow_strays=allow_strays, beside=companion)
        return
    with temporary_directory() as temporary:
        run(
            single_node_config(temporary.path, listen_address, advertised_address, file, options),
            _ready,
            joinable=file is not None,
            leave=temporary.leave,
            beside=companion,
        )


def _serve_secured(
    data_dir: Path | None,
    listen_address: Address | None,
    advertised_address: Address | None,
    options: dict[str, str],
    beside: Beside | None,
    *,
    allow_strays: bool,
    leave: Callable[[int], object] = os._exit,
) -> None:
    if "log.dirs" in options:
        raise UsageError("--secure: the log directory is that of --data-dir")
    if data_dir is None:
        with temporary_directory() as temporary:
            home, leave = temporary.path / "data", temporary.leave
            _serve_secured(home, listen_address, advertised_address, options, beside, allow_strays=False, leave=leave)
        return
    from datetime import UTC, datetime

    from kcli.broker.config.single_node import single_node_config
    from kcli.broker.startup.secure import ADMIN, PROTOCOL, secure
    from kcli.broker.startup.serve import serve as run

    listen_address = listen_address or DEFAULT_ADDRESS
    hosts = [address[0] for address in (listen_address, advertised_address) if address is not None]
    node_id = int(options["node.id"]) if options.get("node.id", "").isdecimal() else None
    secured = secure(data_dir, hosts, node_id, datetime.now(UTC))
    options = {**secured.properties, **options}
    if beside is not None:
        beside.secure(secured)
        options.setdefault("group.initial.rebalance.delay.ms", "0")
    companion = None if beside is None else beside.start
    node = single_node_config(data_dir, listen_address, advertised_address, None, options, PROTOCOL)

    def ready(node: Node) -> None:
        _ready(node)
        host, port = next(iter(node.addresses.values()))
        if secured.directory.logs_in(node.broker.image.scram_credentials):
            _show_login(f"{host}:{port}", secured.directory.client)
        else:
            note(
                f"kcli: {secured.directory.client}: has another password than the admin has now: write that one into "
                f"it, or make this one the admin's again. Next: kcli users remove {ADMIN}, while "
                f"kcli serve --insecure --data-dir {shlex.quote(str(data_dir))} runs"
            )

    run(node, ready, allow_strays=allow_strays, users=secured.users, leave=leave, beside=companion)


def _serve_nodes(data_dir: Path | None, request: ClusterRequest, *, restart: bool, json_lines: bool) -> None:
    from kcli.launcher.launch import launch

    if data_dir is not None:
        launch(data_dir, request, _cluster_ready, restart=restart, json_lines=json_lines)
        return
    with temporary_directory() as temporary:
        home = temporary.path / "cluster" if request.secure else temporary.path
        leave = temporary.leave
        launch(home, request, _cluster_ready, restart=restart, json_lines=json_lines, leave=leave)


def _file(config: Path | None) -> Mapping[str, str] | None:
    from kcli.log.log_directory import read_properties

    return None if config is None else read_properties(config)


def _cluster_ready(cluster: ClusterDirectory) -> None:
    from kcli.launcher.plan import bootstrap

    write_text(
        f"kcli ready {bootstrap(cluster.plans)}  nodes {','.join(str(each.id) for each in cluster.plans)}"
        f"  cluster {cluster.cluster_id}  data {cluster.path}  (Kafka 4.3 protocol)\n"
    )
    if cluster.client is not None:
        _show_login(bootstrap(cluster.plans), cluster.client)


def _show_login(bootstrap: str, client: Path) -> None:
    """Show the command with which the admin connects. client: the admin's client.properties, which Kafka's own tools
    accept as well."""
    write_text(f"  kcli topics list -b {bootstrap} --command-config {shlex.quote(str(client))}\n")


def _names_directory(file: Mapping[str, str]) -> bool:
    return "log.dirs" in file or "log.dir" in file


def _ready(node: Node) -> None:
    host, port = next(iter(node.addresses.values()))
    broker = node.broker
    write_text(
        f"kcli ready {host}:{port}  node {broker.node_id}  cluster {broker.cluster_id}"
        f"  data {printable(','.join(node.config.log_dirs))}  (Kafka 4.3 protocol)\n"
    )


def _address(text: str, option: str) -> Address:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"{option} {text!r} is not HOST:PORT")
    return host.strip("[]"), int(port)
