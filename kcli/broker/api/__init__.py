"""The handlers: one module for each API, with a function of the API's name. kcli/broker/wire/apis.py lists the APIs.

A handler takes the Broker and a Call. It returns the response, or an awaitable of it if it has to wait. Handlers do not
import each other: code that two of them share is in a package below this one.
"""
