"""Data between Kafka and the lake."""
