"""The cluster as the clients of one listener see it: brokers and replicas (nodes), the leaders of partitions
(current_leader)."""
