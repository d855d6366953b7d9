"""`kcli serve --secure`: the certificates, secrets and configurations of a node, or of the nodes of a cluster, that
only known users can use. They are made once, in a directory beside the data.

    DATA-secure/            0700
      ca.pem                the authority's certificate, which clients trust
      authority.pem  0600   the authority's key and certificate, to sign further certificates
      server.pem     0600   the node's key and certificate; in a cluster node-1.pem and so on
      token.key      0600   delegation.token.secret.key
      client.properties     0600: how the admin connects, for kcli and for Kafka's own clients

The directory is complete or does not exist: it is written as DATA-secure.part and renamed. The admin is a SCRAM user
and a super user of StandardAuthorizer. The record of the admin's credential is among the first records of a new
metadata log; to an existing metadata log it is appended at the start. A later start uses the directory as it is, but
makes ca.pem and client.properties again if they are missing, and a node's certificate if it is missing, has expired or
does not name all hosts of the node.
"""

from __future__ import annotations

import datetime as dt
import secrets
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from formats.file_name import METADATA_DIRECTORY, FileKind
from kcli.broker.config.security import JAAS, SCRAM_LOGIN
from kcli.broker.metadata.format import format_directories
from kcli.broker.network.addresses import own_name
from kcli.errors import KcliError, UnreadableInput
from kcli.log.disk import Disk
from kcli.log.log_directory import read_properties
from kcli.log.partition_view import PartitionView
from kcli.metadata.image import MetadataImage, Record
from kcli.metadata.metadata_version import SCRAM
from kcli.metadata.scram_control import credential_record
from kcli.metadata_log.bootstrap import read_bootstrap
from kcli.metadata_log.replay import refuse, replay
from kcli.security.authorizer import CLASS_NAME
from kcli.security.jaas import InvalidJaasConfig, login_module
from kcli.security.principals import user
from kcli.security.scram import MECHANISMS, SCRAM_SHA_512, ScramCredential, new_nonce

if TYPE_CHECKING:
    from kcli.tls.certificates import Authority

PROTOCOL: Final = "SASL_SSL"
"""The security protocol of the listener for clients, and the name of that listener."""
ADMIN: Final = "admin"
_SUPER_USER: Final = user(ADMIN)
_SERVER: Final = "server.pem"
_EVERYWHERE: Final = ("localhost", "127.0.0.1", "::1")
_PASSWORD_BYTES: Final = 24


class NotSecure(KcliError):
    """A log directory, or a cluster, cannot be served with --secure."""


@dataclass(frozen=True, slots=True)
class Secured:
    """The properties with which a secured node starts, and the admin's login. directory: the directory with the admin's
    client.properties. properties: the configurations of the node. users: the records of the admin's credential, to be
    written if the metadata log has no such credential."""

    directory: SecureDirectory
    properties: dict[str, str]
    users: Sequence[Record]


def secure(data_dir: Path, hosts: Sequence[str], node_id: int | None, now: dt.datetime) -> Secured:
    """Make the directory of secrets of a node if it does not exist, and format the log directory if it is not
    formatted. Return the configurations with which the node is to start.

    data_dir: the log directory. hosts: the names and addresses by which clients reach the node, besides localhost.
    node_id: the id for a log directory that is formatted now; None for 1. now: the current time, with a time zone.
    Raises NotSecure, UsageError, UnreadableInput, NotThisNode, StartRefused, OSError.
    """
    data_dir = data_dir.absolute()
    path = beside(data_dir)
    is_formatted = (data_dir / FileKind.META_PROPERTIES).exists()
    if is_formatted and not path.is_dir():
        _check_users(data_dir)
    directory = SecureDirectory.open(path, {_SERVER: hosts}, now)
    users = [directory.admin()]
    if not is_formatted:
        make_private(data_dir)
        milliseconds = int(now.timestamp() * 1000)
        format_directories([data_dir], now_ms=milliseconds, node_id=node_id, users=users)
    properties = {
        # CONTROLLER must be in this map, but a node that is the only one of its cluster opens no such listener
        "listener.security.protocol.map": f"{PROTOCOL}:{PROTOCOL},CONTROLLER:PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": SCRAM_SHA_512.name,
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "super.users": _SUPER_USER,
    }
    return Secured(directory, {**directory.properties(_SERVER), **properties}, users)


def make_private(directory: Path) -> None:
    """Make a directory that only its owner may read, unless it exists. Logs have records that ACLs protect, and the
    metadata log has the credentials of users. Raises OSError."""
    if not directory.exists():
        directory.parent.mkdir(parents=True, exist_ok=True)
        directory.mkdir(mode=0o700)


def beside(data: Path) -> Path:
    """Return the path of the directory of secrets for `data`, which is a node's log directory or a cluster's directory:
    the path `data`, followed by "-secure"."""
    return data.with_name(f"{data.name}-secure")


def is_closed(data: Path) -> bool:
    """Whether a node or a cluster was started with --secure on `data`, which is a node's log directory or a cluster's
    directory, and need not exist."""
    data = data.absolute()
    return bool(data.name) and any((beside(data) / each).exists() for each in ("ca.pem", "token.key"))


def super_users(data: Path) -> frozenset[str]:
    """Return the super users of a node that was started with --secure on the log directory `data`; empty if none
    was."""
    return frozenset([_SUPER_USER] if is_closed(data) else [])


def client_beside(data: Path) -> Path:
    """Return the path of the admin's client.properties for `data`, which is a node's log directory or a cluster's
    directory. The file exists if a node or a cluster was started with --secure on `data`."""
    return SecureDirectory(beside(data)).client


def new_password() -> str:
    """Return a random password."""
    return secrets.token_urlsafe(_PASSWORD_BYTES)


@dataclass(frozen=True, slots=True)
class SecureDirectory:
    """The directory with the authority, the certificates, and the admin's login."""

    path: Path

    @classmethod
    def open(cls, path: Path, certificates: Mapping[str, Sequence[str]], now: dt.datetime) -> SecureDirectory:
        """Return the directory with these certificates; make it if it does not exist. certificates: file name -> the
        hosts that the node listens on or advertises, to which localhost is added. Raises UsageError, UnreadableInput,
        OSError."""
        named = {
            name: list(dict.fromkeys([*_EVERYWHERE, *map(own_name, hosts)])) for name, hosts in certificates.items()
        }
        if not path.is_dir():
            _make(path, named, now)
        _complete(path)
        for name, hosts in named.items():
            _name_hosts(path, name, hosts, now)
        return cls(path)

    @property
    def client(self) -> Path:
        """The admin's client.properties."""
        return self.path / "client.properties"

    def _login(self) -> tuple[str, str]:
        """Return the name and the password in client.properties. Raises UnreadableInput."""
        try:
            options = login_module(read_properties(self.client)[JAAS]).options
            return options["username"], options["password"]
        except (KeyError, InvalidJaasConfig):
            raise UnreadableInput(str(self.client), f"no {JAAS} with a user and a password is in it") from None

    def logs_in(self, credentials: Mapping[tuple[int, str], Mapping[str, Any]]) -> bool:
        """Whether the user in client.properties can log in with the password in that file: the user has a SCRAM-SHA-512
        credential, and it was made of that password. credentials: those of the metadata image, by mechanism code and
        user. Raises UnreadableInput."""
        name, password = self._login()
        record = credentials.get((SCRAM_SHA_512.code, name))
        if record is None:
            return False
        stored = ScramCredential.of(record)
        return ScramCredential.of_password(SCRAM_SHA_512, password, stored.salt, stored.iterations) == stored

    def admin(self) -> Record:
        """Return a UserScramCredentialRecord of the admin, with the password in client.properties and a new salt.
        Raises UnreadableInput."""
        _, password = self._login()
        credential = ScramCredential.of_password(
            SCRAM_SHA_512, password, new_nonce().encode(), SCRAM_SHA_512.iterations_min
        )
        return credential_record(ADMIN, SCRAM_SHA_512.code, credential)

    def properties(self, certificate: str) -> dict[str, str]:
        """Return the configurations of a node: its certificate, the logins of users, the authorizer. certificate: the
        name of the file in this directory with the node's key and certificate. Raises UnreadableInput."""
        prefix, key = f"listener.name.{PROTOCOL.lower()}", self.path / "token.key"
        try:
            token_key = key.read_text(encoding="ascii").strip()
        except OSError as error:
            then = (
                f"Next: (umask 077; openssl rand -hex 24 > {shlex.quote(str(key))}), which ends all delegation tokens"
            )
            raise UnreadableInput(str(key), f"{error.strerror}. {then}") from None
        return {
            "inter.broker.listener.name": PROTOCOL,
            **{f"{prefix}.{name.lower()}.{JAAS}": f"{SCRAM_LOGIN} required;" for name in MECHANISMS},
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.path / certificate),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.path / "ca.pem"),
            "authorizer.class.name": CLASS_NAME,
            "delegation.token.secret.key": token_key,
        }


def _check_users(data_dir: Path) -> None:
    """Check that the admin can be added to the metadata of a log directory. Raises NotSecure if its metadata.version
    does not support SCRAM users, or if a user with the admin's name, whose password is not known here, exists."""
    directory = data_dir / METADATA_DIRECTORY
    if directory.is_dir():
        image = replay(directory, PartitionView(directory).original, refuse, around_damage=False)
    else:
        image = MetadataImage()
        for name, _, fields in read_bootstrap(data_dir):
            image.apply(name, fields, 0)
    if image.metadata_version < SCRAM:
        raise NotSecure(
            f"{data_dir}: its metadata.version is older than users of SCRAM, 3.5-IV2. Next: "
            f"kafka-features.sh --bootstrap-server localhost:9092 upgrade --release-version 4.3"
        )
    if (SCRAM_SHA_512.code, ADMIN) in image.scram_credentials:
        raise NotSecure(
            f"{data_dir}: has a user {ADMIN} already, of whom {beside(data_dir)} is not there. Next: "
            f"kcli users remove {ADMIN}, while kcli serve --data-dir {data_dir} runs"
        )


def _make(directory: Path, certificates: Mapping[str, Sequence[str]], now: dt.datetime) -> None:
    from kcli.tls.certificates import make_authority, write_secret

    disk, partial = Disk(), directory.with_name(f"{directory.name}.part")
    if partial.is_dir() and not partial.is_symlink():
        disk.remove_tree(partial)  # a start that was killed has left this directory
    partial.parent.mkdir(parents=True, exist_ok=True)
    partial.mkdir(mode=0o700)
    authority = make_authority(f"kcli {directory.name}", now)
    disk.write_file(partial / "ca.pem", authority.certificate_pem)
    write_secret(partial / "authority.pem", authority.identity.pem)
    for name, hosts in certificates.items():
        write_secret(partial / name, authority.server(hosts, now).pem)
    write_secret(partial / "token.key", new_password().encode())
    write_secret(partial / "client.properties", _client_properties(authority))
    disk.rename(partial, directory)
    disk.sync_directory(directory.parent)


def _client_properties(authority: Authority) -> bytes:
    """Return the contents of the admin's client.properties, with a new password."""
    login = f'{SCRAM_LOGIN} required username="{ADMIN}" password="{new_password()}";'
    client = {
        "security.protocol": PROTOCOL,
        "sasl.mechanism": SCRAM_SHA_512.name,
        JAAS: login,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": authority.certificate_pem.decode().strip().replace("\n", "\\n"),
    }
    return "".join(f"{key}={text}\n" for key, text in client.items()).encode()


def _complete(directory: Path) -> None:
    """Make ca.pem and client.properties again from the authority if they are missing. The admin's credential does not
    match the new password in a new client.properties yet."""
    ca, client = directory / "ca.pem", SecureDirectory(directory).client
    if not ca.exists():
        Disk().write_file(ca, _authority(directory).certificate_pem)
    if not client.exists():
        Disk().write_private_file(client, _client_properties(_authority(directory)))


def _authority(directory: Path) -> Authority:
    """Return the certificate authority of the node or cluster whose secrets are in `directory`, read from
    authority.pem. Raises UnreadableInput, UsageError."""
    from kcli.tls.certificates import read_authority

    path = directory / "authority.pem"
    try:
        return read_authority(path.read_bytes())
    except OSError as error:
        reason = f"{error.strerror}: it signs what is made anew. Next: put it back from a backup"
        raise UnreadableInput(str(path), reason) from None


def _name_hosts(directory: Path, name: str, hosts: Sequence[str], now: dt.datetime) -> None:
    """Make a new certificate for a node if the current certificate is missing, has expired or does not name all hosts.
    name: the file with the node's key and certificate. hosts: those that the certificate must name. The new certificate
    also names the hosts of the current one. Raises UnreadableInput, UsageError."""
    from kcli.tls.certificates import hosts_of, write_secret

    path, partial = directory / name, directory / f"{name}.part"
    try:
        named = hosts_of(path.read_bytes(), now) if path.exists() else []
    except OSError as error:
        raise UnreadableInput.of(path, error) from None
    if named and set(hosts) <= set(named):
        return
    authority = _authority(directory)
    partial.unlink(missing_ok=True)
    write_secret(partial, authority.server(list(dict.fromkeys([*hosts, *named])), now).pem)
    disk = Disk()
    disk.rename(partial, path)
    disk.sync_directory(directory)
