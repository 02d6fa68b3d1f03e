"""Settings of the console, and its only module that reads the environment.

Every variable is documented once, here. Without any of them a checkout runs on SQLite under ``./var``; ``manage.py up``
sets REDIS_URL and TIDEMARK_DATA for the processes it starts.
"""

import os
import re
import secrets
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from console.process import environment
from console.process.environment import env
from console.process.private_files import FolderUnusable, keep_private, require_writable
from console.web import reverse_proxy
from spark.lag.local_time import zone_problem

BASE_DIR = Path(__file__).resolve().parent.parent

# --- Where things are ---------------------------------------------------------------------------------------

# TIDEMARK_DATA: databases, broker store, history, reports, secret key. On a local disk: SQLite's WAL requires one.
DATA_DIR = Path(env.str("TIDEMARK_DATA", default="") or BASE_DIR / "var").resolve()
try:
    require_writable(DATA_DIR)
except FolderUnusable as error:
    raise ImproperlyConfigured(f"TIDEMARK_DATA: {error}") from None
keep_private(DATA_DIR)
# HISTORY_URL: an fsspec address for lag history, e.g. s3://bucket/history; a folder of DATA_DIR without it.
STORAGE = "a folder (file:///folder) or object storage (s3://bucket/folder)"
HISTORY_URL = env.like("HISTORY_URL", f"file://{DATA_DIR / 'history'}", environment.STORAGE, STORAGE)
# HISTORY_DAYS: how long lag history is kept at full resolution. 90 days of 1,000 queues every 5 s are 0.8 GB.
HISTORY_DAYS = env.days("HISTORY_DAYS", 90)
# REPORT_QUEUE_DAYS: how long the files with the hourly rows of single queues stay.
# REPORTS_URL: an fsspec address for these files, e.g. s3://bucket/reports; a folder of DATA_DIR without it.
REPORT_QUEUE_DAYS = env.days("REPORT_QUEUE_DAYS", 14)
# REPORT_HOUR_DAYS, REPORT_DAY_DAYS, REPORT_WEEK_DAYS: how long rows of groups and topics stay, of hourly, daily and
# weekly reports; trends over months and years are made of the latter. REPORT_RUN_DAYS: runs whose rows are gone.
REPORT_HOUR_DAYS = env.days("REPORT_HOUR_DAYS", 100)
REPORT_DAY_DAYS = env.days("REPORT_DAY_DAYS", 800)
REPORT_WEEK_DAYS = env.days("REPORT_WEEK_DAYS", 3_660)
REPORT_RUN_DAYS = env.days("REPORT_RUN_DAYS", 100)
REPORTS_DIR = DATA_DIR / "reports"
REPORTS_URL = env.like("REPORTS_URL", f"file://{REPORTS_DIR}", environment.STORAGE, STORAGE)
# Recorded in every report row as the code that computed it.
CODE_VERSION = "0.1.0"
# REPORT_TIME_ZONE: the IANA name of the zone whose days and weeks reports are about, e.g. Europe/Berlin; the schedule
# of a report may have another.
REPORT_TIME_ZONE = env.str("REPORT_TIME_ZONE", default="UTC")
if problem := zone_problem(REPORT_TIME_ZONE):
    raise ImproperlyConfigured(f"REPORT_TIME_ZONE: {problem}")
# EPISODE_DAYS: how long episodes (a topic late, standing still, offline, losing messages) are kept after their end.
EPISODE_DAYS = env.days("EPISODE_DAYS", 400)
# LAG_SLO_MS: how long a message may wait before a minute counts as breached in reports.
LAG_SLO_MS = env.whole("LAG_SLO_MS", 60_000)
# Hours a topic or group must be in quarantine before deleting it is offered.
QUARANTINE_HOURS = env.whole("QUARANTINE_HOURS", 24, least=0)
# DEAD_LETTER_CAUSE_PROPERTIES: message properties with the reason why a message died; the first one present counts.
# Brokers write none; the defaults are those of Spring Cloud Stream, of common handlers, and ours.
DEAD_LETTER_CAUSE_PROPERTIES = env.list(
    "DEAD_LETTER_CAUSE_PROPERTIES",
    default=["DEAD_LETTER_CAUSE", "x-exception-message", "exception", "error", "cause"],
)
# LEDGER_RETENTION_DAYS: how long the rows of finished replays are kept; longer than brokers keep dead letters, or a
# letter that was replayed before would be sent again.
LEDGER_RETENTION_DAYS = env.days("LEDGER_RETENTION_DAYS", 30)
# How far back the sample before an hour is searched, when the hour is in the log; chunks know theirs.
REPORT_LOOKBACK_MS = 3_600_000
# LAG_SLO_TARGET: the share of time in which no message should wait longer; REPORT_RECOVERY_MS: how soon a backlog
# should be gone, for the capacity report.
LAG_SLO_TARGET = env.number("LAG_SLO_TARGET", 0.99, least=0.000001, most=0.999999)
REPORT_RECOVERY_MS = env.whole("REPORT_RECOVERY_MS", 3_600_000)
# EMAIL_URL: the server that sends reports, smtp://user:password@host:587 (smtp+tls, smtp+ssl); MAIL_FROM: their sender.
_mail = env.parsed(
    "EMAIL_URL",
    lambda: env.email_url("EMAIL_URL", default="smtp://"),
    "an address such as smtp://user:password@host:587 (or smtp+tls, smtp+ssl)",
)
EMAIL_BACKEND = _mail["EMAIL_BACKEND"]
EMAIL_HOST, EMAIL_PORT = _mail["EMAIL_HOST"] or "", _mail["EMAIL_PORT"] or 25
EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = _mail["EMAIL_HOST_USER"] or "", _mail["EMAIL_HOST_PASSWORD"] or ""
EMAIL_USE_TLS, EMAIL_USE_SSL = _mail.get("EMAIL_USE_TLS", False), _mail.get("EMAIL_USE_SSL", False)
EMAIL_TIMEOUT = 20
DEFAULT_FROM_EMAIL = env.like(
    "MAIL_FROM", "tidemark@localhost", environment.MAIL_SENDER, "a mail address such as tidemark@example.org"
)
# WEBHOOK_HOSTS: the only hosts that reports are posted to, names or patterns: "chat.example.org,*.hooks.example.org".
# Without it any host, but no address of this machine itself, link-local, or of a cloud's metadata.
WEBHOOK_HOSTS = env.each_like("WEBHOOK_HOSTS", [], environment.HOST_NAME, "names of hosts, without https://")
# PUBLIC_URL: how people reach this console, for links in mails: https://tidemark.example.org
PUBLIC_URL = env.like(
    "PUBLIC_URL", "", environment.WEB_ADDRESS, "an address such as https://tidemark.example.org"
)
# STORE_FOLDERS: stores of brokers that may be read here, or copies: "cluster:broker=/folder,cluster:broker=/folder".
STORE_FOLDERS = env.parsed(
    "STORE_FOLDERS",
    lambda: [environment.store_folder(*one) for one in env.dict("STORE_FOLDERS", default={}).items()],
    "cluster:broker=/folder, comma separated",
)
# REDIS_URL: task queue and live updates, redis://host:port/0 or unix:///path/redis.sock. Without it: the server of a
# running `manage.py up` on the same data folder, else Redis's default port.
REDIS_NOTE = DATA_DIR / "redis_url"
REDIS_URL = env.parsed(
    "REDIS_URL",
    lambda: environment.redis_address(
        env.str("REDIS_URL", default="")
        or (REDIS_NOTE.read_text() if REDIS_NOTE.is_file() else "redis://127.0.0.1:6379/0")
    ),
    "an address such as redis://host:6379/0 or unix:///run/redis.sock",
)
# SPARK_REMOTE (sc://host:port) or SPARK_MASTER (spark://host:port): where reports run; without both, in a subprocess
# of this machine.
SPARK_REMOTE = env.like(
    "SPARK_REMOTE", "", re.compile(r"sc://\S+"), "an address such as sc://host:15002", is_shown=False
)
SPARK_MASTER = env.like(
    "SPARK_MASTER",
    "",
    re.compile(r"(spark|k8s)://\S+|yarn|local(\[[0-9*,]+\])?"),
    "an address such as spark://host:7077",
)
# SPARK_LOCAL_CONNECT_REUSE: reports on this machine share one Spark server that stays up between runs (1 GB of
# memory).
SPARK_LOCAL_CONNECT_REUSE = env.bool("SPARK_LOCAL_CONNECT_REUSE", default=False)
# REPORTS_AT_ONCE: how many reports run at a time. On this machine each takes every core and a gigabyte; a cluster runs
# several, as many as WORKER_REPORT_THREADS wait for.
REPORTS_AT_ONCE = env.whole(
    "REPORTS_AT_ONCE", 2 if SPARK_REMOTE or SPARK_MASTER.startswith("spark://") else 1, most=1_000
)
# SPARK_IDLE_S: how long the process of a report waits for the next one, with its JVM (1 GB of memory); 0: not at all.
SPARK_IDLE_S = env.number("SPARK_IDLE_S", 300.0, least=0, most=1e9)
# TIDEMARK_EMBEDDED_NAMESRV: name server of the brokerd that `manage.py up` runs; registered as cluster "local".
EMBEDDED_NAMESRV = env.like(
    "TIDEMARK_EMBEDDED_NAMESRV", "", re.compile(r"\S+:[0-9]+"), "an address such as 127.0.0.1:9876"
)
# TIDEMARK_DEMO: `manage.py up` runs the demo; pages offer its tour and a broker failure.
DEMO = env.bool("TIDEMARK_DEMO", default=False)


# --- Security -----------------------------------------------------------------------------------------------


def kept_secret(path: Path) -> str:
    """Return the key stored in ``path``, created at first use."""
    return kept(path, lambda: secrets.token_urlsafe(48))


def kept(path: Path, make: Callable[[], str]) -> str:
    """Return the text stored in ``path``, created at first use and readable by its owner only.

    Two simultaneous first starts agree on one value.
    """
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
    # A unique name and mode 0600: no other process or thread writes or removes this draft.
    descriptor, draft = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(make())
        os.link(draft, path)  # fails if another process was first; its value is used then
    except FileExistsError:
        pass
    finally:
        os.unlink(draft)
    return path.read_text().strip()


def new_host_id() -> str:
    """Return a name that is unique to this host and that an operator recognizes."""
    name = re.sub(r"[^a-z0-9]+", "-", socket.gethostname().partition(".")[0].lower()).strip("-")[:40]
    return f"{name or 'host'}-{secrets.token_hex(4)}"


# TIDEMARK_HOST: the name of this host's log in the history, at most 64 of [a-z0-9-]. Created at first use and kept in
# the data folder, which each host must have for itself.
HOST_ID = env.str("TIDEMARK_HOST", default="") or kept(DATA_DIR / "host_id", new_host_id)
if not re.fullmatch(r"[a-z0-9-]{1,64}", HOST_ID):
    raise ImproperlyConfigured(f"TIDEMARK_HOST is {HOST_ID!r}: use at most 64 of a to z, 0 to 9 and -.")


def required_secret() -> str:
    """Return SECRET_KEY; without DATABASE_URL it is stored in the data folder.

    Raises ImproperlyConfigured if it is missing with DATABASE_URL: all processes of a site must share one.
    """
    given: str = env.str("SECRET_KEY", default="")
    if given:
        return given
    if env.str("DATABASE_URL", default=""):
        raise ImproperlyConfigured(
            "Set SECRET_KEY: with DATABASE_URL every process must be given the same one."
        )
    return kept_secret(DATA_DIR / "secret_key")


SECRET_KEY = required_secret()
DEBUG = env.bool("DEBUG", default=False)
# ALLOWED_HOSTS: names the site is reached by, comma separated. This machine only without it.
ALLOWED_HOSTS = env.each_like(
    "ALLOWED_HOSTS",
    ["127.0.0.1", "localhost", "[::1]"],
    environment.HOST_NAME,
    "names of hosts, without https:// and port",
)
# CSRF_TRUSTED_ORIGINS: https://console.example.org behind a proxy that ends TLS.
CSRF_TRUSTED_ORIGINS = env.each_like(
    "CSRF_TRUSTED_ORIGINS", [], environment.WEB_ADDRESS, "addresses such as https://console.example.org"
)
# TIDEMARK_HTTPS: the site is reached over TLS only (a proxy in front sets X-Forwarded-Proto).
HTTPS = env.bool("TIDEMARK_HTTPS", default=False)
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = HTTPS
SECURE_HSTS_SECONDS = 365 * 24 * 3600 if HTTPS else 0
# TIDEMARK_HSTS_SUBDOMAINS, TIDEMARK_HSTS_PRELOAD: force TLS for every subdomain too, and for browsers that have never
# been here. This lasts for years and includes other services under these names: only where all of them are reached by
# TLS.
SECURE_HSTS_INCLUDE_SUBDOMAINS = env.bool("TIDEMARK_HSTS_SUBDOMAINS", default=False) and HTTPS
SECURE_HSTS_PRELOAD = env.bool("TIDEMARK_HSTS_PRELOAD", default=False) and SECURE_HSTS_INCLUDE_SUBDOMAINS
# TRUSTED_PROXIES: addresses or networks of the reverse proxies in front, comma separated: 127.0.0.1,10.0.0.0/24. Their
# X-Forwarded-For names the client for the audit and the limits of sign-in. That of any other peer is ignored.
try:
    TRUSTED_PROXIES = reverse_proxy.networks(env.list("TRUSTED_PROXIES", default=[]))
except ValueError as error:
    raise ImproperlyConfigured(
        f"TRUSTED_PROXIES: {error}. Set it to addresses or networks such as 127.0.0.1,10.0.0.0/24."
    ) from error
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS else None
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
# SESSION_DAYS: the longest duration of a sign-in; SESSION_IDLE_MINUTES: the longest without use (0: no limit).
SESSION_COOKIE_AGE = env.days("SESSION_DAYS", 14) * 24 * 3600
SESSION_IDLE_S = env.whole("SESSION_IDLE_MINUTES", 8 * 60, least=0) * 60
SESSION_COOKIE_NAME = "tidemark_session"
CSRF_COOKIE_NAME = "tidemark_csrf"
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"
# METRICS_TOKEN: the bearer token that /metrics and the reasons of /readyz require. Without it only this machine may
# read them, and not through a proxy.
METRICS_TOKEN = env.str("METRICS_TOKEN", default="")
# METRICS_TOPICS_MAX: how many topics of groups /metrics exports, about 15 series each, the most urgent ones;
# METRICS_QUEUES: single queues too, at most METRICS_QUEUES_MAX. The number left out is exported too.
METRICS_TOPICS_MAX = env.whole("METRICS_TOPICS_MAX", 5_000, least=0)
METRICS_QUEUES = env.bool("METRICS_QUEUES", default=False)
METRICS_QUEUES_MAX = env.whole("METRICS_QUEUES_MAX", 20_000, least=0)

LOGIN_URL = "sign-in"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "sign-in"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]

# --- Applications -------------------------------------------------------------------------------------------

INSTALLED_APPS = [
    "console",
    "console.access",
    "console.cluster",
    "console.lag",
    "console.broker",
    "console.topic",
    "console.group",
    "console.message",
    "console.deadletter",
    "console.operation",
    "console.rebalance",
    "console.report",
    "console.demo",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "console.access.admin_config.TidemarkAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "console.web.compression.CompressionMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "console.web.security.ContentSecurityPolicyMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "console.text.locale.ReaderLocaleMiddleware",
    "console.web.security.AddressMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "console.access.session.idle_session.IdleSessionMiddleware",
    # Every page requires sign-in unless its view states otherwise: an omission must not open a page.
    "console.access.session.idle_session.SignInMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
ROOT_URLCONF = "console.urls"
ASGI_APPLICATION = "console.asgi.application"
APPEND_SLASH = False
TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "OPTIONS": {
            "loaders": [
                (
                    "django.template.loaders.cached.Loader",
                    [
                        "console.templatetags.loader.UnindentedLoader",
                        "django.template.loaders.app_directories.Loader",
                    ],
                )
            ],
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
            "builtins": [
                "django.templatetags.i18n",
                "console.templatetags.frames",
                "console.templatetags.words",
            ],
        },
    }
]
PLAN_KINDS = "console.plans.PLAN_KINDS"  # the table plan kind → its object, used by console.operation
DESCRIBE_EVENTS = "console.plans.describe_events"  # plans and reports of audit events, used by console.access
MESSAGE_EVENTS = "console.plans.MESSAGE_EVENTS"  # sources of the console's own events of a message

# --- Databases ----------------------------------------------------------------------------------------------

# IMMEDIATE: a transaction that reads and then writes waits for its turn instead of failing with "database is locked".
SQLITE_OPTIONS = {"timeout": 20, "transaction_mode": "IMMEDIATE"}
SQLITE_PRAGMAS = (
    "PRAGMA journal_mode=WAL; PRAGMA synchronous={synchronous}; PRAGMA cache_size=-20000; "
    "PRAGMA temp_store=MEMORY; PRAGMA mmap_size=134217728;"
)
# DATABASE_POOL_MAX: connections to PostgreSQL of one process and database. Threads share them: with one for each thread
# of each process (CONN_MAX_AGE), a busy ASGI server alone takes more than PostgreSQL's usual 100.
DATABASE_POOL_MAX = env.whole("DATABASE_POOL_MAX", 16, most=1_000)
POOL_WAIT_S = 20  # for a connection that another thread has, as long as SQLite waits for its lock
# For a server whose host does not answer at all; a server that is down refuses at once.
POSTGRESQL_OPTIONS = {"connect_timeout": 5, "tcp_user_timeout": 10_000}


def database(variable: str, file_name: str, *, synchronous: str) -> dict[str, Any]:
    """Return the database of ``variable`` (postgres://…), or a SQLite file of the data folder."""
    found: dict[str, Any] = env.parsed(
        variable,
        lambda: environment.database(variable, f"sqlite:///{DATA_DIR / file_name}"),
        "an address such as postgres://user:password@host/name",
    )
    options = found.setdefault("OPTIONS", {})
    if found["ENGINE"] == "django.db.backends.sqlite3":
        pragmas = SQLITE_PRAGMAS.format(synchronous=synchronous)
        options |= {**SQLITE_OPTIONS, "init_command": pragmas}
    else:
        found["ENGINE"] = "console.postgresql"
        found["OPTIONS"] = {
            **POSTGRESQL_OPTIONS,
            "pool": {"most": DATABASE_POOL_MAX, "wait_s": POOL_WAIT_S},
            **options,
        }
    return found


# The rows of every collection round have their own file: SQLite allows one writer per file, so pages never wait for
# them.
DATABASES = {
    # FULL: plans, jobs, ledgers and audit survive a power cut once committed; NORMAL may lose the last commits, and a
    # replay without the record of what it sent would send it twice.
    "default": database("DATABASE_URL", "console.sqlite3", synchronous="FULL"),
    # Rows lost in a power cut are read again in the next round.
    "metrics": database("METRICS_DATABASE_URL", "metrics.sqlite3", synchronous="NORMAL"),
}
DATABASE_ROUTERS = ["console.lag.database_router.MetricsRouter"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# --- Static files -------------------------------------------------------------------------------------------

STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
# STATIC_ROOT: where `collectstatic` put hashed, compressed files. Without it they are served from their source
# folders.
STATIC_ROOT = env.like("STATIC_ROOT", "", re.compile("/.*"), "the full path of a folder") or None
WHITENOISE_USE_FINDERS = STATIC_ROOT is None
WHITENOISE_AUTOREFRESH = DEBUG
WHITENOISE_MIMETYPES = {".speculationrules": "application/speculationrules+json"}
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"
        if STATIC_ROOT and not DEBUG
        else "django.contrib.staticfiles.storage.StaticFilesStorage"
    },
}

# --- Language and time --------------------------------------------------------------------------------------

LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("zh-hans", "简体中文")]
LOCALE_PATHS = [BASE_DIR / "locale"]
LANGUAGE_COOKIE_NAME = "tidemark_language"
LANGUAGE_COOKIE_AGE = 365 * 24 * 3600
LANGUAGE_COOKIE_SAMESITE = "Lax"
LANGUAGE_COOKIE_SECURE = HTTPS
USE_TZ = True
TIME_ZONE = "UTC"

# --- Tasks --------------------------------------------------------------------------------------------------

# kombu's word for a Unix socket is redis+socket://, redis-py's is unix://
CELERY_BROKER_URL = REDIS_URL.replace("unix://", "redis+socket://", 1)
# Without both timeouts a worker on a silently dropped connection would receive nothing any more.
CELERY_BROKER_TRANSPORT_OPTIONS = {"socket_timeout": 15, "health_check_interval": 5, "socket_keepalive": True}
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TASK_IGNORE_RESULT = True  # the job's row holds the result
# Queues with workers of their own, and their threads: collection and sweeps never wait for jobs, jobs not for reports.
# WORKER_COLLECT_THREADS, WORKER_OPERATE_THREADS (of which a quarter work on replays and drains, so that a short change
# always finds one), WORKER_REPORT_THREADS (each waits for a Spark process of up to 1 GB).
WORKER_THREADS = {
    "collect": env.whole("WORKER_COLLECT_THREADS", 8, most=1_000),
    "operate": max(2, env.whole("WORKER_OPERATE_THREADS", 8, most=1_000)),
    "report": env.whole("WORKER_REPORT_THREADS", 2, most=1_000),
}
LONG_JOBS_MAX = max(1, WORKER_THREADS["operate"] // 4)
CELERY_TASK_DEFAULT_QUEUE = "collect"
# Each host also has its own queue, for rounds that should stay on the host of the round before.
HOST_QUEUE = "collect.{host}"
CELERY_TASK_ROUTES = {
    "console.operation.tasks.*": {"queue": "operate"},
    "console.report.tasks.*": {"queue": "report"},
}
CELERY_TIMEZONE = "UTC"
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
# Nothing to keep: every schedule is fixed, and what is due is decided by the tasks.
CELERY_BEAT_SCHEDULER = "celery.beat:Scheduler"
# Redis key, with ":pool": when a worker last ran a task of beat; /readyz checks it.
TICK_KEY = "tidemark:tick"
TICKING_POOLS = ("collect", "operate")

# --- REST ---------------------------------------------------------------------------------------------------

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "api.rest.authentication.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["api.rest.parsers.ShallowJSONParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "api.rest.problems.exception_handler",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Tidemark",
    "DESCRIPTION": "Topics, consumer groups, lag, dead letters and guarded changes of RocketMQ clusters.",
    "VERSION": "1.0.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
    # Stable names for generated clients: without them spectacular numbers the enums of fields called "state".
    "ENUM_NAME_OVERRIDES": {
        "AclPermEnum": "console.broker.acl.rights.PERMS",
        "PlanState": "console.operation.models.PlanState",
        "JobState": "console.operation.models.JobState",
        "LedgerState": "console.deadletter.models.LedgerState",
    },
}

# --- Log ----------------------------------------------------------------------------------------------------

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "{asctime} {levelname:.1} {name}: {message}", "style": "{"}},
    "filters": {"outage": {"()": "console.web.outage.OneLine"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["outage"]}},
    "root": {"handlers": ["stderr"], "level": environment.log_level()},
    "loggers": {
        "celery.beat": {"level": "WARNING"},  # a line per tick otherwise
        "celery.app.trace": {"level": "WARNING"},
        "celery.worker.strategy": {"level": "WARNING"},
        "uvicorn.access": {"level": "WARNING"},
        "httpx": {"level": "WARNING"},
    },
}
