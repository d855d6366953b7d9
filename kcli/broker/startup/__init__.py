"""`kcli serve`: a node in a process of its own.

serve        start it, wait for a signal, stop it
supervised   the messages between a node and its launcher
"""
