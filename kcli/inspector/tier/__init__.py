"""The checks of `kcli tier verify` and `kcli tier orphans`. They yield findings and print nothing.

verification   each segment: its objects, their sizes, batches, indexes; gaps; contradictions to the metadata
coverage       what the tier has of the offsets that a log lacks, for `kcli recover --tier`
orphans        objects that no metadata names, and metadata that names no objects

kcli.inspector.verify.tier_objects adapts the findings of `kcli verify` to objects.
"""

from kcli.inspector.tier.orphans import Orphans
from kcli.inspector.tier.verification import TierVerification

__all__ = ["Orphans", "TierVerification"]
