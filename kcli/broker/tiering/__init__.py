"""Tiered storage in a broker: which segments are copied to a store, read from it, and deleted there (KIP-405).

    config    what the broker's configuration says about it: TierConfig

What the records of `__remote_log_metadata` mean, and the stores, are in kcli.tier.
"""
