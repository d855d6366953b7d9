"""The parts of Kafka's wire protocol that several of kcli's packages use.

error_code        the protocol's error codes; imports nothing of kcli
topic_partition   a partition by the name or the id of its topic; imports nothing of kcli
kio_serial        kio's readers and writers, for broker and client; coordinators, controller and raft do not import kio
"""
