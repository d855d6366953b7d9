"""Whether a running listener may change to a new context, after its settings or the files that they name have changed.

The certificates of a new key store must have the same subjects as those of the old key store, unless
ssl.allow.dn.changes is true, and at least the same alternative names, unless ssl.allow.san.changes is true: other nodes
and clients know the listener by these. The number of keys must be the same, unless both settings are true. A key store
cannot be removed, and neither a key store nor a trust store can be added. Source: SslFactory.createNewSslEngineFactory,
CertificateEntries; KIP-978.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.tls.contexts import TlsContext
from kcli.tls.settings import InvalidTlsSetting

if TYPE_CHECKING:
    from cryptography.x509 import Certificate


def check_replacement(old: TlsContext, new: TlsContext, *, allows_names: bool, allows_hosts: bool) -> None:
    """Raise InvalidTlsSetting if a listener with the old context may not change to the new one.

    allows_names, allows_hosts: ssl.allow.dn.changes and ssl.allow.san.changes.
    """
    if old.settings.has_keys != new.settings.has_keys:
        what = "taken away from" if old.settings.has_keys else "added to"
        raise InvalidTlsSetting("ssl.keystore.location", f"a key store cannot be {what} a listener that is running")
    if new.settings.has_trust and not old.settings.has_trust:
        raise InvalidTlsSetting(
            "ssl.truststore.location", "a trust store cannot be added to a listener that is running"
        )
    if allows_names and allows_hosts:
        return
    before = sorted(old.entries, key=lambda entry: entry.alias)
    after = sorted(new.entries, key=lambda entry: entry.alias)
    if len(before) != len(after):
        reason = f"the running listener has {len(before)} keys, and {len(after)} are there now"
        raise InvalidTlsSetting("ssl.keystore.location", reason)
    for had, has in zip(before, after, strict=True):
        was, now = had.chain[0], has.chain[0]
        if not allows_names and _canonical(was) != _canonical(now):
            reason = f"the certificate of {was.subject.rfc4514_string()} is now that of {now.subject.rfc4514_string()}"
            raise InvalidTlsSetting("ssl.allow.dn.changes", f"must be true: {reason}")
        if not allows_hosts and (missing := _hosts(was) - _hosts(now)):
            reason = f"the new certificate of {now.subject.rfc4514_string()} lacks {', '.join(sorted(missing))}"
            raise InvalidTlsSetting("ssl.allow.san.changes", f"must be true: {reason}")


def _canonical(certificate: Certificate) -> str:
    """Return the subject of a certificate in a form that ignores case and the number of blanks, as Java's comparison
    does."""
    return " ".join(certificate.subject.rfc4514_string().casefold().split())


def _hosts(certificate: Certificate) -> frozenset[str]:
    """Return the subject alternative names of a certificate, each with its kind: "DNSName localhost"."""
    from cryptography.x509 import ExtensionNotFound, SubjectAlternativeName

    try:
        names = certificate.extensions.get_extension_for_class(SubjectAlternativeName).value
    except (ExtensionNotFound, ValueError):
        return frozenset()
    return frozenset(f"{type(each).__name__} {each.value}" for each in names)
