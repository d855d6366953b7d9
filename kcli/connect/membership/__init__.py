"""The group protocol of Connect's workers: what members tell the leader, and what the leader gives them.

    protocol   bytes of metadata and assignments, versions 0 to 2
    assignor   who gets which connectors and tasks: at once and anew (eager), or what changes (cooperative)
    signing    signatures of requests between workers

No I/O, no clock.
"""
