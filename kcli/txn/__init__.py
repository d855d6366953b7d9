"""The transaction coordinator: producer epochs, the states of transactions, and when their markers are written. It has
no I/O and no clock (see kcli.coordinator.machine). Begin with `machine.TransactionMachine`."""
