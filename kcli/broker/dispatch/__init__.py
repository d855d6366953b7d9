"""Passes each request to its handler.

handlers   the handler of each API
inputs     the fields of a request and the state of the node on which a response depends
kept       caches encoded responses until what they depend on changes
parts      splits a request with many items into parts, and merges the responses
routing    passes a request to the handler on this node, or to the active controller
"""
