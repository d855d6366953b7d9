"""The worker of Kafka Connect.

rest        the REST API: requests to the herder's operations. Start here
herder      reads and changes of connectors
validation  what is wrong with a configuration; offsets, loggers: their parts of the API
work        what runs on this worker, made to agree with the configurations and the group
group       what the herder asks of the group; distributed: the membership in one
leading     what the leader does for the tasks of all workers; internal: how other workers ask for it
peers       requests to other workers
leadership  how the leader writes configurations in transactions
stores      where configurations, offsets and statuses are: in memory and a file, or in kafka_stores
topic_log   one of Connect's topics, replayed and appended to
settings    the worker's configuration; variables: those of config providers
server      the listener, and a worker from its start to its end
errors      errors with their HTTP statuses

A change is written as records and acted upon when they are replayed: state is never built any other way.
"""
