"""Kafka Connect: its REST API, its topics and its plug-ins' names, with Structured Streaming as the engine.

plugins     what a connector is to the worker and to the engine; which classes there are. Start here
builtin     the plug-ins that kcli has
config      options of connectors, converters and transforms, and what is wrong with a configuration
data, converters, transforms, processing
            what becomes of a record
connectors  the connectors that kcli has
engine      their tasks, in turns of queries of Spark
topics      records of Connect's three topics, and the state that replay makes of them
membership  the group protocol of workers
worker      the worker: REST API, stores, what runs
rest_client, history
            what commands ask a worker, and a topic of statuses
"""
