"""What Kafka answers to requests about configurations: the requests, its answers (kafka.jsonl), and how to ask it."""
