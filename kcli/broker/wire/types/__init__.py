"""The types of every API's messages, for mypy alone: a stub for each API, made by kcli/broker/wire/make_types.py.

A stub has each request, response and struct once, with the fields of all versions that kcli speaks, and the API's Call
with the types of the request's fields and of the values of which the response is made. Import stubs only under
TYPE_CHECKING, as no modules exist for them.
"""
