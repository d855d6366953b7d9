"""A Kafka broker: one node, one event loop."""
