"""A handshake in memory between two contexts."""

from __future__ import annotations

import ssl


def shaken(
    server: ssl.SSLContext, client: ssl.SSLContext, host: str | None = "localhost"
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Return the server's and the client's side after the handshake, and one byte from each to the other.

    Raises ssl.SSLError: the error of the side that finds the fault.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server.wrap_bio(to_server, to_client, server_side=True)
    theirs = client.wrap_bio(to_client, to_server, server_hostname=host)
    waiting = [theirs, ours]
    for _ in range(10):
        for each in list(waiting):
            try:
                each.do_handshake()
                waiting.remove(each)
            except ssl.SSLWantReadError:
                continue
    assert not waiting
    theirs.write(b"?")
    assert ours.read(1) == b"?"
    ours.write(b"!")
    assert theirs.read(1) == b"!"
    return ours, theirs
