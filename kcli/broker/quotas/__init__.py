"""Client quotas: the usage of each client (client), counted as a rate or with a token bucket (rates)."""
