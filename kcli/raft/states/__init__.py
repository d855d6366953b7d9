"""The states of a raft node, one module each: the fields of a state, and how requests, answers and flushes change them.

No state knows the node that it belongs to: `kcli.raft.core` changes one state for another, `kcli.raft.polling` sends
what is due in each. The table of changes is in the docstring of kcli.raft.
"""
