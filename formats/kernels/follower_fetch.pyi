from typing_extensions import Buffer

def read_request(
    frame: Buffer,
) -> (
    tuple[
        int,
        tuple[int, int],
        int,
        int,
        int,
        int,
        int,
        list[tuple[tuple[bytes, int], tuple[int, int, int, int, int]]],
    ]
    | None
):
    """Return (correlation id, (replica id, replica epoch), max_wait, min_bytes, max_bytes, session id, session epoch,
    partitions) of an ordinary Fetch request, version 17, of a follower, else None.

    partitions: [((topic id, index), (offset, max bytes, leader epoch, last fetched epoch, log start)), ...]. Source:
    FetchRequest.json."""

def read_response(
    frame: Buffer, position: int
) -> tuple[int, list[tuple[bytes, list[tuple[int, int, int, int, int, int]]]]] | None:
    """Return (session id, topics) of an ordinary Fetch response, version 17, whose body begins at `position`, else
    None: in an ordinary one no partition has an error, aborted transactions, a preferred replica or a tagged field.

    topics: [(id, [(index, high watermark, last stable offset, log start offset, start of the records in the frame,
    their size in bytes, -1 for null), ...]), ...]. Source: FetchResponse.json."""
