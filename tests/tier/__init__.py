"""Tests of kcli.tier: the records of remote log metadata, stores, lineage, fetching."""
