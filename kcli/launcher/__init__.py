"""A cluster on one machine: `kcli serve --nodes`. It makes the nodes' directories, starts a process for each, watches
them, and stops them as one.

    plan          how many nodes of which roles, and each one's server.properties
    paths         names in the cluster's directory
    directory     where they are on disk; what is there is gone on with
    ports         addresses that stay theirs, also while a node is down
    fork_server   a process that has imported everything and is forked for each node
    node_process  what such a process does
    channel       what launcher and node tell each other
    output        the nodes' log lines, on the launcher's stderr
    supervisor    starts, watches, restarts, stops
    control       the socket below the data directory that `kcli cluster` talks to
    control_client   asks it
    launch        all of it, from the command line's options to the end
"""
