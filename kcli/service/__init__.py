"""What a service beside the brokers is made of: the schema registry and Connect's worker serve HTTP, and talk to Kafka
from their event loops.

http        HTTP/1.1: bytes to requests, answers to bytes, limits
messages    requests and answers
http_client a request to another service of the same group
json_text   JSON as Jackson reads and writes it
cluster     requests to the brokers of a Kafka cluster
fetched     the records of a Fetch response
serving     the listening socket of a service, and the signals that end it
outbound    TLS and SASL towards brokers, by a client's properties
"""
