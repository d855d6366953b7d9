"""The coordinators of groups and transactions on a broker. Each runs the state machines of kcli/group or kcli/txn: a
state machine has the state of all groups or transactional ids in one partition of the coordinator's topic.

context                             the parts of the broker that coordinators use
runtime, log, uncommitted           loads the state machine of each partition, passes requests to it, appends the
                                    records that it returns, and holds its responses back until these records are
                                    committed
groups, group_metadata              the group coordinator
transactions, markers               the transaction coordinator; writes its markers to the partitions of transactions
local_markers                       transaction markers in the partitions that this broker leads
transaction_check                   whether a partition is part of a producer's transaction
producer_ids, other_brokers         blocks of producer ids; channels to other brokers
"""
