"""The schemas with which a broker checks the records of its topics: those of the registry in its process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.registry.names import DEFAULT_CONTEXT

if TYPE_CHECKING:
    from kcli.registry.server import RegistryServer


class RegisteredSchemas:
    """The schemas of a registry that has started. It is read in any thread; a lookup is one of a dictionary."""

    is_ready = True

    def __init__(self, server: RegistryServer) -> None:
        self._server = server

    def knows(self, subject: str, schema_id: int) -> bool:
        """Return whether a version of the subject has the schema with this id. A soft-deleted version counts, as its
        records can still be read."""
        return self._server.registry.image.version_of(DEFAULT_CONTEXT, schema_id, subject) is not None
