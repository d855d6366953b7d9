"""A schema registry as Confluent's clients know it, on Kafka's own topic `_schemas`.

messages   a request, an answer, and what a request changes: records of `_schemas`, then the answer
api        `handle`: the image and a request in, an Answer or a Change out; no I/O, no clock

The server appends a Change's records to `_schemas`, replays them into the image as it replays everybody else's, and
then gives the answer. State is never built any other way.
"""
