"""The ACLs in the metadata log of a log directory, without a broker."""

from __future__ import annotations

from pathlib import Path

from kcli.errors import UnreadableInput
from kcli.inspector.cluster_metadata import read_image
from kcli.security.acl_filter import AclFilter
from kcli.security.acls import Acl, AclFields


class AclFiles:
    """The ACLs in one metadata log: that of the first of the given log directories that has a metadata log."""

    def __init__(self, directories: list[Path]) -> None:
        """Read the metadata log of the first directory that has one. Raises UnreadableInput if no directory has one, or
        if that metadata log cannot be read."""
        images = (read_image(each) for each in directories)
        image = next((each for each in images if each is not None), None)
        if image is None:
            raise UnreadableInput(str(directories[0]), "no metadata log is in it, which has the ACLs")
        self._records = list(image.acls.values())

    def matching(self, acl_filter: AclFilter) -> list[Acl]:
        """Return the ACLs that a filter matches."""
        return [Acl.of(each) for each in self._records if acl_filter.matches(AclFields.of(each))]
