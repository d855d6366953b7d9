"""The log directories of a broker: formatted, locked, checked, and their logs loaded at the start; their checkpoints.

directories     log directories: found or formatted, locked, checked to belong together, online or offline
loading         the start of one log directory: its logs are opened by several threads
checkpoints     recovery points, log start offsets, high watermarks, cleaned offsets
lost_metadata   a start stops where a damaged metadata log no longer names partitions on disk
"""
