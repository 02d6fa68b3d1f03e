"""Django settings of the tests: the product's own, on throw-away data."""

import atexit
import os
import shutil
import tempfile

_DATA, _OWNER = tempfile.mkdtemp(prefix="tidemark-test-"), os.getpid()


@atexit.register
def _remove_data() -> None:
    if os.getpid() == _OWNER:  # a process forked from this one ends earlier
        shutil.rmtree(_DATA, ignore_errors=True)


_GIVEN = {"TIDEMARK_DATA": _DATA, "SECRET_KEY": "only-for-tests"}
_GIVEN = {name: value for name, value in _GIVEN.items() if name not in os.environ}
os.environ.update(_GIVEN)
from console.settings import *  # noqa: E402, F403

for _name in _GIVEN:  # the product's processes that tests start have data of their own
    del os.environ[_name]

# Nothing listens on port 1: a test that needs Redis asks for the fixture `redis_url`, others must not find
# one.
REDIS_URL = CELERY_BROKER_URL = "redis://127.0.0.1:1/0"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # a slow hash proves nothing here
ALLOWED_HOSTS = ["testserver", "127.0.0.1", "localhost"]
WHITENOISE_AUTOREFRESH = True  # no scan of all static files for each test client
