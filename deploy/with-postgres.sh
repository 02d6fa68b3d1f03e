#!/usr/bin/env bash
# Runs a command on a throw-away PostgreSQL cluster: DATABASE_URL and METRICS_DATABASE_URL name its two databases.
#   deploy/with-postgres.sh .venv/bin/python -m pytest tests/console
set -euo pipefail
bin="$(dirname "$(command -v initdb || ls /usr/lib/postgresql/*/bin/initdb 2>/dev/null | tail -n 1 || echo /missing/initdb)")"
[ -x "$bin/initdb" ] || { echo "PostgreSQL is missing: apt-get install postgresql (make test does it when run as root)" >&2; exit 1; }
folder="$(mktemp -d /tmp/tm-pg.XXXXXX)"
as_owner=()
if [ "$(id -u)" = 0 ]; then  # PostgreSQL refuses to run as root
  chown nobody "$folder"
  as_owner=(setpriv --reuid=nobody --regid="$(id -g nobody)" --clear-groups)
fi
stop() { "${as_owner[@]}" "$bin/pg_ctl" -D "$folder/data" -m immediate stop >/dev/null 2>&1 || true; rm -rf "$folder"; }
trap stop EXIT
port="$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')"
cd /tmp
"${as_owner[@]}" "$bin/initdb" -D "$folder/data" -U tidemark -A trust -E UTF8 >/dev/null
# Nothing here outlives the command: flushing to disk would only cost time.
"${as_owner[@]}" "$bin/pg_ctl" -D "$folder/data" -l "$folder/log" -w start \
  -o "-p $port -k $folder -c listen_addresses=127.0.0.1 -c fsync=off -c max_connections=200" >/dev/null
for name in tidemark metrics; do "$(command -v psql || echo "$bin/psql")" -q -h 127.0.0.1 -p "$port" -U tidemark -d postgres -c "create database $name"; done
cd "$OLDPWD"
export DATABASE_URL="postgres://tidemark@127.0.0.1:$port/tidemark"
export METRICS_DATABASE_URL="postgres://tidemark@127.0.0.1:$port/metrics"
export SECRET_KEY="${SECRET_KEY:-only-for-tests}"
"$@"
