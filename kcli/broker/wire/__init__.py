"""Requests and responses on the wire, without sockets: bytes to objects and back. Read apis, messages and call first.

apis                the list of APIs: keys, versions, and the listeners that accept their requests
messages            the classes of the library kio for each API and version; decodes a request from a frame
request_check       checks the lengths in a request before kio decodes it
kio_readable        rewrites a request that Kafka reads and kio does not: unknown tagged fields, booleans, strings
produce_request     the Produce request, decoded by compiled code (formats/kernels) instead of kio
call                one request as its handler receives it
types               stubs for mypy alone, made by make_types: the fields of each API's messages over all versions, and
                    the API's subclass of Call
answers             what a handler may return instead of a response: a frame, a future response, a closed connection
layout, *_layout    responses encoded without kio, since clients request them most often
fetch_request, fetch_response    encodes a follower's Fetch request, and decodes the response to it
failures            the response to a request that failed as a whole
plain_values        makes requests of dicts, lists and numbers
acls                code that the requests about ACLs share
"""
