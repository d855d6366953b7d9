"""Converters: the bytes of keys, values and headers in Kafka to Connect's data, and back.

converter    what a converter is, and the options that all have. Start here
plugins      the converters by the names of Kafka's classes
strings      StringConverter; plain: ByteArrayConverter, BooleanConverter and those of numbers
json         JsonConverter; jackson: JSON read as Java's Jackson reads it
headers      SimpleHeaderConverter
registered   Avro, Protobuf and JSON Schema, with a schema registry, under the names of Confluent's classes

A converter raises DataError for what it cannot convert.
"""
