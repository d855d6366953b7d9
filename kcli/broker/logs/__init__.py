"""All logs of a broker, and their background work.

manager      opens, creates, deletes and closes the logs as the metadata says
background   retention, flushes, checkpoints, deletion of files
compaction   the log cleaner's threads, and the choice of the log to compact
moves        replicas that are moved to another log directory
"""
