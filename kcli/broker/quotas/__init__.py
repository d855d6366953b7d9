"""Client quotas. client: the usage of each client. rates: a rate and a token bucket, which count it."""
