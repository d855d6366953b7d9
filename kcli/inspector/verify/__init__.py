"""Is every byte of a log, and of what Kafka keeps beside it, as it should be? Yields findings, prints nothing."""

from kcli.inspector.verify.directory import Verification
from kcli.inspector.verify.findings import Finding, Severity

__all__ = ["Finding", "Severity", "Verification"]
