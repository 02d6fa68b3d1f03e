"""The compiled twins of what ordinary sends cost most, where they were built and `compiledSends=true` asks for them."""

from __future__ import annotations

import importlib
import logging
from types import ModuleType

logger = logging.getLogger(__name__)


def compiled_functions(*, is_wanted: bool) -> ModuleType | None:
    """Return brokerd.compiled.hot; None leaves everything to Python."""
    if not is_wanted:
        return None
    try:
        return importlib.import_module("brokerd.compiled.hot")
    except ImportError as error:
        logger.warning(
            "compiledSends=true: sends go the way of Python, which takes twice the CPU (%s);"
            " `python -m brokerd.compiled.build` builds what is missing",
            error,
        )
        return None
