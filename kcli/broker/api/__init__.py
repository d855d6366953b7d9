"""The handlers: one module for each API, with a function of the API's name. kcli/broker/wire/apis.py lists the APIs.

A handler takes the Broker and a Call. It returns the response, or an awaitable of the response if it has to wait. Its
docstring lists the error codes of the response, without those for a denied access.
Handlers do not import each other: code that two handlers share is in a package that kcli/broker/__init__.py lists below
`api`.
"""
