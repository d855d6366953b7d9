"""The log directories of a broker: formats, locks and checks them, loads their logs when the node starts, and writes
their checkpoints.

directories     finds or formats the log directories, locks them, checks that they belong together; which are online
loading         opens the logs of one log directory when the node starts, in several threads
checkpoints     recovery points, log start offsets, high watermarks, cleaned offsets
lost_metadata   keeps a node from starting if its damaged metadata log no longer names partitions on disk
"""
