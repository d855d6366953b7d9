"""The checks of kcli verify: every byte of logs and of the files beside them. They yield findings and print nothing."""

from kcli.inspector.verify.findings import Finding, Severity
from kcli.inspector.verify.verification import Verification

__all__ = ["Finding", "Severity", "Verification"]
