"""An object of a bucket by its URL, with those methods of Path that a dump of a file needs.

    s3://bucket/prefix/<topic>-<partition>-<topic id>/<offset>-<segment id>.log    an object
    s3://bucket/prefix/<topic>-<partition>-<topic id>                              a partition
    s3://bucket/prefix                                                             a tier, or a copy of a log directory

A URL whose last part is the name of a file of Kafka is that of an object, without a request. For any other URL the
bucket is asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from formats.file_name import parse, parse_directory
from kcli.errors import UnreadableInput
from kcli.log.source import Source
from kcli.tier.address import Bucket
from kcli.tier.bucket import BucketStore
from kcli.tier.store import ObjectMissing


@dataclass(frozen=True, slots=True)
class BucketPath:
    """The URL of an object, or of a directory: a prefix with objects below it. All methods that ask the bucket raise
    UnreadableInput."""

    bucket: Bucket

    def __str__(self) -> str:
        return str(self.bucket)

    @property
    def name(self) -> str:
        """The last part of the URL."""
        return self.bucket.prefix.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        """The end of the name from its last dot on; empty without a dot."""
        _, dot, suffix = self.name.rpartition(".")
        return dot and dot + suffix

    @property
    def parent(self) -> BucketPath:
        """The URL without its last part."""
        return BucketPath(self.bucket._replace(prefix=self.bucket.prefix.rpartition("/")[0]))

    def with_name(self, name: str) -> BucketPath:
        """Return the URL of another object beside this one."""
        return self.parent / name

    def __truediv__(self, name: str) -> BucketPath:
        prefix = f"{self.bucket.prefix}/{name}" if self.bucket.prefix else name
        return BucketPath(self.bucket._replace(prefix=prefix))

    def absolute(self) -> BucketPath:
        """Return the URL itself, which is valid in any working directory."""
        return self

    def is_file(self) -> bool:
        """Whether this is the URL of an object. The bucket is asked only if `name` is neither that of a file of Kafka
        nor that of a partition's directory."""
        if parse(self.name) is not None:
            return True
        if parse_directory(self.name) is not None or not self.parent.bucket.prefix:
            return False
        try:
            _store(self.parent.parent.bucket).size(self._object)
        except ObjectMissing:
            return False
        return True

    def open_source(self) -> Source:
        """Return the object's bytes, fetched in windows as they are read."""
        if not self.parent.bucket.prefix:
            raise UnreadableInput(str(self), "an object's URL ends with a partition's directory and the object's name")
        try:
            return _store(self.parent.parent.bucket).open(self._object)
        except ObjectMissing:
            raise UnreadableInput(str(self), "no such object") from None

    def files(self) -> Iterator[BucketPath]:
        """Yield the objects below this URL, by name: those of one partition if it is that of a partition's directory,
        else those in the directories of partitions."""
        is_partition = parse_directory(self.name) is not None
        store = _store(self.parent.bucket) if is_partition else BucketStore(self.bucket)
        found = False
        for each in store.list_objects(f"{self.name}/" if is_partition else ""):
            found = True
            if each.odd is None:
                directory, _, name = each.name.partition("/")
                yield BucketPath(store.bucket) / directory / name
        if not found:
            raise UnreadableInput(str(self), "no such object, and none below it")

    @property
    def _object(self) -> str:
        return f"{self.parent.name}/{self.name}"


@lru_cache(maxsize=4)
def _store(bucket: Bucket) -> BucketStore:
    """Return the store with the directories of partitions right below the prefix."""
    return BucketStore(bucket, look_inside=False)
