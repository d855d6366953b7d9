# What the cleaner is to do with a batch.
cpdef enum:
    CLEAN_DISCARD = 1                # the records go: of an aborted transaction, or a marker whose horizon has passed
    CLEAN_RETAIN_EMPTY = 2           # the header stays even if no record does
    CLEAN_EMPTY_TXN = 4              # a marker whose transaction has no records left: its horizon is to be set
    CLEAN_MARKER = 8                 # a control batch
