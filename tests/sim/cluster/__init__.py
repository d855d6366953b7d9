"""A whole cluster in one process, on a simulated clock, network and disk: see world.py."""
