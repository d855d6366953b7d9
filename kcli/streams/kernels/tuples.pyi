from typing import TypeVar

_T = TypeVar("_T", bound=type[tuple[object, ...]])

def quick(cls: _T) -> _T: ...
