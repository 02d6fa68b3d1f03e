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
java_17() { [ "$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p')" -ge 17 ]; }
needs "$python" -c 'import ensurepip, venv' || wanted+=(python3-venv)
if [ "$wish" = test ]; then
  needs javac -version && needs java_17 || wanted+=(openjdk-17-jdk-headless)
  needs mvn -version || wanted+=(maven)
  needs command -v initdb || needs ls /usr/lib/postgresql/*/bin/initdb || wanted+=(postgresql)
  needs xgettext --version && needs msgfmt --version || wanted+=(gettext)
  needs command -v chromium || needs command -v google-chrome || wanted+=(chromium fonts-dejavu-core)
else
  needs java_17 || wanted+=(openjdk-17-jre-headless)
fi

install_packages() {
  [ ${#wanted[@]} -gt 0 ] || return 0
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    say "installing ${wanted[*]} (Debian packages)"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${wanted[@]}"; } \
      >/tmp/tidemark-apt.$$ 2>&1 && { rm -f /tmp/tidemark-apt.$$; return 0; }
    tail -n 5 /tmp/tidemark-apt.$$ >&2
    say "apt-get could not install ${wanted[*]}"
  else
    say "missing: ${wanted[*]}; install with: sudo apt-get install ${wanted[*]}"
  fi
  # Reports are the only part of the product that needs Java; the tests need everything.
  [ "$wish" = run ] && [ "${wanted[*]}" = openjdk-17-jre-headless ] && { say "going on without Java: reports will say so"; return 0; }
  return 1
}

install_python() {
  local file="requirements.txt"
  [ "$wish" = test ] && file="requirements-dev.txt"
  local stamp=".venv/.$wish-ready"
  if [ -f "$stamp" ] && [ ! "$stamp" -ot requirements.txt ] && [ ! "$stamp" -ot "$file" ] && [ ! "$stamp" -ot constraints.txt ]; then
    return 0
  fi
  [ -x .venv/bin/python ] || "$python" -m venv .venv
  say "installing Python packages of $file (once)"
  .venv/bin/python -m pip install --quiet --disable-pip-version-check -r "$file" -c constraints.txt
  touch "$stamp"
  [ "$wish" = test ] && touch .venv/.run-ready
  return 0
}

case " ${wanted[*]-} " in
  *" python3-venv "*) install_packages; install_python ;;                  # the environment needs it first
  *) install_packages & packages=$!; install_python; wait "$packages" ;;   # otherwise side by side
esac
