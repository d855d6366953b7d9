"""`kcli serve`: a node in a process of its own.

serve        starts the node, waits for a signal, stops the node
supervised   the messages between a node and its launcher
"""
