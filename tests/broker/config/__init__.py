"""Requests about configurations: the requests, Kafka's responses (kafka.jsonl), and the program that asks Kafka."""
