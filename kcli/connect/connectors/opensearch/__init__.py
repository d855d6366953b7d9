"""The sink for OpenSearch and Elasticsearch: records to documents of indexes, under the class names and options of
Aiven's and of Confluent's plug-in.

    sink       the connectors and their task: what is sent, what an answer means. Read first
    options    the options of both
    documents  a record's index, id, version and JSON; the mapping of a schema
    server     requests of the REST API
"""
