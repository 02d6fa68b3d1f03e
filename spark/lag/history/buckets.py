"""The name of a large day of history, which is several files, buckets of groups that follow each other.

Bucket 3 of a day's second generation is `…/b=3-g2.parquet`; `…/b=0,1,2,3-g2.parquet` is no file but all four of them,
for readers of a whole day.
"""

import re
from collections.abc import Sequence

_NAME = re.compile(r"(?P<folder>.*/)?b=(?P<numbers>\d+(?:,\d+)*)(?P<rest>-g\d+\.parquet)")


def joined_path(paths: Sequence[str]) -> str:
    """Return one path for the buckets of a day and generation, which are given in their order."""
    found = [_NAME.fullmatch(path) for path in paths]
    names = [one for one in found if one is not None]
    assert len(names) == len(paths) and len({(one["folder"], one["rest"]) for one in names}) == 1, paths
    first = names[0]
    return f"{first['folder'] or ''}b={','.join(one['numbers'] for one in names)}{first['rest']}"


def split_path(path: str) -> list[str]:
    """Return the files that a path stands for: itself, mostly."""
    found = _NAME.fullmatch(path)
    if found is None or "," not in found["numbers"]:
        return [path]
    return [f"{found['folder'] or ''}b={number}{found['rest']}" for number in found["numbers"].split(",")]
