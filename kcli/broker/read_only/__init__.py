"""`kcli serve --read-only`: a broker that serves log directories without changing them."""
