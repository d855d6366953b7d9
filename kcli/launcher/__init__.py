"""A cluster on one machine: `kcli serve --nodes`. The launcher creates the directories of the nodes (brokers and
controllers), starts a process for each node, restarts those that die, and stops them all in order.

    plan          the nodes of a cluster with their roles, and the server.properties of each
    paths         the file names in the cluster's directory
    secured       the certificates and credentials of --secure
    directory     creates the cluster's directory, or opens an existing one
    ports         reserves the nodes' ports, also while a node is down
    fork_server   a process that has imported all modules of a node and is forked for each node
    node_process  the main function of a forked node process
    channel       the launcher's end of its socket to a node
    output        copies the nodes' log lines to the launcher's stderr
    supervisor    starts, watches, restarts and stops the node processes
    control       the launcher's socket below the data directory, for `kcli cluster`
    control_client   sends a request to that socket
    launch        runs a cluster from the command line's options to its end
"""
