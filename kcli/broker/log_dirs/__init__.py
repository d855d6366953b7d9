"""The log directories of a broker: formatted, locked, checked, and their logs loaded when the node starts; their
checkpoints.

directories     log directories: found or formatted, locked, checked to belong together, online or offline
loading         opens the logs of one log directory when the node starts, in several threads
checkpoints     recovery points, log start offsets, high watermarks, cleaned offsets
lost_metadata   the node does not start where a damaged metadata log no longer names partitions on disk
"""
