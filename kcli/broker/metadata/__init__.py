"""The metadata log of a node: written, read back, kept short."""
