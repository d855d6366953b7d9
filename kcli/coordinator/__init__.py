"""The interface between the coordinators of groups (kcli.group) and of transactions (kcli.txn) and their runtime on the
broker (kcli.broker.coordinators), in `machine`. No I/O, no clock."""
