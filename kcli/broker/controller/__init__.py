"""The controller's part of a node: what brokers and clients want of the active one, and what it does by itself."""
