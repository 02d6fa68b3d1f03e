"""Certificates that the tests of one module share."""

from __future__ import annotations

import pytest

from tests.support.certificates import Authority, Issued


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> Issued:
    return authority.issue("server")
