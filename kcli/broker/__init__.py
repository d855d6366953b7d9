"""A Kafka broker: one node, one event loop. Read first: node, then broker, then api/produce.

Each package gets, as arguments, the objects whose methods it calls. It imports only packages below it in this list, and
only the packages above `broker` use the class Broker. The contract "broker" in pyproject.toml enforces that order.

    startup        `kcli serve`: a node in a process of its own
    read_only      a broker that serves log directories without a change to them
    node           opens, builds, starts and stops the parts of a node
    api            the handlers: one module for each API
    dispatch       passes a request to its handler; runs long requests in parts
    broker         the class Broker that handlers receive, and how its parts are built
    tiering        tiered storage: what this broker does for the partitions with remote.storage.enable
    controller     the active controller, and a node's requests to it
    coordinators   group and transaction coordinator: run the state machines of kcli/group and kcli/txn
    replication    fetching from leaders on other brokers, and answering the Fetches of followers
    logs           opens, cleans, moves and closes all logs
    fetching       fetch sessions: what a broker remembers between the Fetches of one client
    partition      a replica: its log, its state as leader, the requests that wait for its high watermark
    log_dirs       locks and loads the log directories, writes their checkpoints
    metadata       the metadata log, of a single node or of a quorum (kcli/raft)
    network        sockets: connections from clients, and channels to other nodes
    authorization  what a request may do: the checks of the handlers
    audit          the lines of kafka.authorizer.logger
    quotas         client quotas, and how much of them each client has used
    client_view    brokers and replicas with the addresses of one listener
    wire           requests and responses as bytes and as objects
    config         Kafka's configurations: names, defaults, validation
    process        the clock; tasks, and how long ones share the event loop with others; file descriptors
"""
