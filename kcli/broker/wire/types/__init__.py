"""The types of every API's messages, for mypy alone: a stub for each API, made by kcli/broker/wire/make_types.py.

A stub has each request, response and struct once, with the fields of all versions that kcli speaks, and the API's Call,
which knows the types of its request's fields and of the values that its response is made of. Import stubs under
TYPE_CHECKING: no module is behind them.
"""
