#!/usr/bin/env bash
# Makes the checkout ready: a virtual environment under .venv and the few Debian packages the work needs.
#   deploy/set-up.sh run    what `make run` needs: Python packages, a Java runtime for Spark reports
#   deploy/set-up.sh test   all that, and what the tests need: JDK, Maven, Chromium, PostgreSQL, development tools
# Repeats are cheap: it does only what is not there. Without root it says in one sentence what to install.
set -euo pipefail
cd "$(dirname "$0")/.."
wish="${1:?run or test}"
[ "$wish" = run ] || [ "$wish" = test ] || { echo "set-up: say run or test, not $wish" >&2; exit 2; }

say() { echo "set-up: $*" >&2; }

python=""
for candidate in "${PYTHON:-}" python3 python3.13 python3.12 python3.11; do
  [ -n "$candidate" ] || continue
  if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python="$candidate"; break; fi
done
[ -n "$python" ] || { say "Python 3.11 or newer is missing; on Debian: apt-get install python3 python3-venv"; exit 1; }

# Debian packages by what they bring: a command (or Python module) that must answer, and the package that has it.
wanted=()
needs() { "$@" >/dev/null 2>&1; }
# What `brokerd.compiled` is built with; without it brokerd stays pure Python, and only the tests need both.
compiles() {
  printf '#include <Python.h>\n#include <zlib.h>\n' |
    cc -E -I"$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')" -
}
java_17() { [ "$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p')" -ge 17 ]; }
if [ "$wish" = test ]; then
  needs javac -version && needs java_17 || wanted+=(openjdk-17-jdk-headless)
  needs mvn -version || wanted+=(maven)
  needs command -v initdb || needs ls /usr/lib/postgresql/*/bin/initdb || wanted+=(postgresql)
  needs compiles || wanted+=(gcc python3-dev zlib1g-dev)
  needs xgettext --version && needs msgfmt --version || wanted+=(gettext)
  needs command -v chromium-headless-shell || needs command -v google-chrome || [ -n "${CHROMIUM:-}" ] ||
    wanted+=(chromium-headless-shell fonts-dejavu-core fonts-wqy-microhei)  # Chinese pages are looked at too
else
  needs java_17 || wanted+=(openjdk-17-jre-headless)
fi

lists_are_fresh=""
install_packages() {  # names of Debian packages
  [ $# -gt 0 ] || return 0
  local log="/tmp/tidemark-apt.$$"
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    say "installing $* (Debian packages)"
    { [ -n "$lists_are_fresh" ] || apt-get update -qq; } >"$log" 2>&1 &&
      DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >>"$log" 2>&1 &&
      { lists_are_fresh=yes; rm -f "$log"; return 0; }
    tail -n 5 "$log" >&2
    say "apt-get could not install $*"
  else
    say "missing: $*; install with: sudo apt-get install $*"
  fi
  # Reports are the only part of the product that needs Java; the tests need everything.
  [ "$wish" = run ] && [ "$*" = openjdk-17-jre-headless ] && { say "going on without Java: reports will say so"; return 0; }
  return 1
}

pip() { .venv/bin/python -m pip --disable-pip-version-check "$@"; }

# uv installs the same versions in a third of pip's time. It does not read pip's settings: the index and the
# certificates that pip is given are given to it too.
install_with_uv() {
  pip install --quiet --retries 1 uv -c constraints.txt || return 1
  local settings index certificates
  settings="$(pip config list)"
  setting_of_pip() { sed -n "s/^\(:env:\|global\|install\)\.$1='\(.*\)'\$/\2/p" <<<"$settings" | head -n 1; }
  index="${UV_DEFAULT_INDEX:-$(setting_of_pip index-url)}"
  certificates="${SSL_CERT_FILE:-$(setting_of_pip cert)}"
  # PySpark comes as sources and is built here: packing 450 MB of its jars tightly would take longer than all the rest.
  env ${index:+UV_DEFAULT_INDEX="$index"} ${certificates:+SSL_CERT_FILE="$certificates"} \
    .venv/bin/uv pip install --quiet --python .venv/bin/python --compile-bytecode \
    --config-settings-package "pyspark:--build-option=--compression=stored" "$@"
}

install_python() {
  local file="requirements.txt"
  [ "$wish" = test ] && file="requirements-dev.txt"
  local stamp=".venv/.$wish-ready"
  if [ -f "$stamp" ] && [ ! "$stamp" -ot requirements.txt ] && [ ! "$stamp" -ot requirements-s3.txt ] \
    && [ ! "$stamp" -ot "$file" ] && [ ! "$stamp" -ot constraints.txt ]; then
    return 0
  fi
  [ -x .venv/bin/python ] || "$python" -m venv .venv
  say "installing Python packages of $file (once)"
  install_with_uv -r "$file" -c constraints.txt || {
    say "uv could not do it: going on with pip, which takes longer"
    pip install --quiet -r "$file" -c constraints.txt || return 1
  }
  touch "$stamp"
  [ "$wish" = test ] && touch .venv/.run-ready
  return 0
}

# The environment needs this one first; the other packages are installed beside it.
needs "$python" -c 'import ensurepip, venv' || install_packages python3-venv
install_packages "${wanted[@]}" & packages=$!
install_python
wait "$packages"
.venv/bin/python -m brokerd.compiled.build >&2
