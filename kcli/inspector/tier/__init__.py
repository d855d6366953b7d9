"""The checks of `kcli tier verify` and `kcli tier orphans`. They yield findings and print nothing.

verification   each segment: its objects, their sizes, batches, indexes; gaps; what the metadata contradicts
objects        findings of an object by the checks of `kcli verify`, with the next steps that an object has
coverage       what the tier has of the offsets that a log lacks, for `kcli recover --tier`
orphans        objects that no metadata names, and metadata that names no objects
"""

from kcli.inspector.tier.orphans import Orphans
from kcli.inspector.tier.verification import TierVerification

__all__ = ["Orphans", "TierVerification"]
