from typing_extensions import Buffer

def read_request(
    frame: Buffer, items_max: int
) -> (
    tuple[
        int,
        int,
        int,
        tuple[int, int],
        int,
        int,
        int,
        str,
        list[tuple[tuple[str | bytes, int], tuple[int, int, int, int, int]]],
    ]
    | None
):
    """Return (version, correlation id, max_wait, (min_bytes, max_bytes), isolation level, session id, session epoch,
    rack, partitions) of an ordinary Fetch request, version 4 to 18, of a consumer, with up to `items_max` partitions;
    else None.

    partitions: [((topic name or id of 16 bytes, index), (offset, max bytes, leader epoch, last fetched epoch, log
    start)), ...]. A field that the version lacks is -1; the session id 0, the rack "". Source: FetchRequest.json."""
