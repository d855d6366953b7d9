"""What the other packages of the broker use of the process and the operating system. Nothing here is specific to Kafka.

clock         the current time, real or set by a test
turns         lets long work on the event loop take turns, or runs it in a thread
unattended    logs the failures of background tasks
descriptors   the limit of open files, and the share of it reserved for logs
memory        memory that the C library would keep, returned to the system
log_lines     the program's own log on stderr
uuid_hashes   hashes of UUIDs that clients cannot foresee
"""
