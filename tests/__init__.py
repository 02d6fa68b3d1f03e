"""Tests and harnesses; what they and all they start leave in temporary folders ends with the first process."""

from tests.support import scratch

scratch.begin()
