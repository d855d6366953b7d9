"""The bucket of the tests of a tier."""

from tests.tier.conftest import s3, s3_endpoint

__all__ = ["s3", "s3_endpoint"]
