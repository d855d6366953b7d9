"""Sockets, requests and answers: what a broker is to its clients."""
