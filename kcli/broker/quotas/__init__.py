"""Client quotas. client: the quotas, and the usage of each client. rates: a rate and a token bucket, which count the
usage."""
