"""Connect's data: what connectors, transforms and converters hand to each other.

    errors -> schema, values -> struct -> builder -> logical -> texts, maps, numbers -> parsing, records

errors    exceptions with the names of Kafka's classes, which dead letters carry
schema    Type, Schema, Field
values    Int8, Int16, Int32, Float32 and Date: values that Python has no type for, and the names of Java's classes
struct    Struct, and the check that a value fits a schema
builder   schemas, checked as Kafka's SchemaBuilder checks them
logical   Decimal, Date, Time and Timestamp: their schemas, and from and to the values that they stand for
maps      the order in which a HashMap of Java iterates
texts     values as Java's toString and Connect's Values print them
parsing   values and their schemas from text, as the values of headers are read
numbers   numbers as numbers of other types, and of texts
records   records of sources and sinks, with headers

A value is what Python has for it: str, bytes, bool, int, float, list, dict, decimal.Decimal, Struct, Date. Without a
schema, int is Java's Long and float its Double; the other widths have the classes of `values`. With a schema, an int or
a float fits each width.
"""
