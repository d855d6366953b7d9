"""The broker's TCP side: listening sockets, connections of clients, and connections to other nodes."""
