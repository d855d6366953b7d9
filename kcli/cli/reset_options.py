"""Options of the commands that set committed offsets: where to."""

from __future__ import annotations

from typing import Annotated

import typer

ToOffset = Annotated[int | None, typer.Option("--to-offset", min=0, metavar="N", help="To this offset.")]
ShiftBy = Annotated[
    int | None, typer.Option("--shift-by", metavar="N", help="So many on from what is committed; negative: back.")
]
ToDatetime = Annotated[
    str | None, typer.Option("--to-datetime", metavar="TIME", help="To the first record of this time or later.")
]
ByDuration = Annotated[
    str | None, typer.Option("--by-duration", metavar="PnDTnHnMnS", help="Likewise, so long ago: P7D, PT1H30M.")
]
