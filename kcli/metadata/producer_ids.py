"""AllocateProducerIds: blocks of producer ids for brokers. Source: ProducerIdControlManager, ProducerIdsBlock;
KIP-730."""

from __future__ import annotations

from typing import Any, Final

from kcli.metadata.image import MetadataImage
from kcli.metadata.result import Refused, Result
from kcli.protocol.error_code import ErrorCode

BLOCK_SIZE: Final = 1000
LONG_MAX: Final = (1 << 63) - 1
SKIPPED_BLOCKS: Final = 1000
"""How many blocks of producer ids are skipped if the blocks that were last given to brokers are not known."""


def next_block(image: MetadataImage, broker_id: int, broker_epoch: int) -> Result[range]:
    """Allocate the next block of producer ids to a broker; no id is allocated twice. Raises
    Refused(UNKNOWN_SERVER_ERROR) if all ids are used up."""
    first = max(image.next_producer_id, 0)
    if first > LONG_MAX - BLOCK_SIZE:
        reason = "Exhausted all producerIds as the next block's end producerId has exceeded the int64 type limit"
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, reason)
    block = range(first, first + BLOCK_SIZE)
    record = {"brokerId": broker_id, "brokerEpoch": broker_epoch, "nextProducerId": block.stop}
    return Result([("ProducerIdsRecord", 0, record)], block)


def skipping_record(following: int) -> dict[str, Any]:
    """Return a ProducerIdsRecord whose next block is SKIPPED_BLOCKS blocks above the ids below `following`."""
    first = (-(-following // BLOCK_SIZE) + SKIPPED_BLOCKS) * BLOCK_SIZE
    return {"brokerId": -1, "brokerEpoch": -1, "nextProducerId": min(first, LONG_MAX - BLOCK_SIZE)}
