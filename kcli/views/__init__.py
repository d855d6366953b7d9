"""Groups and transactions as commands show them, read from a cluster or from the files of log directories.

    groups        groups, members, committed offsets with their lag
    transactions  transactional ids, the producers of a partition, hanging transactions

Value types and functions of them; no I/O. kcli.client and kcli.inspector make the values, kcli.cli shows them.
"""
