#!/bin/sh
# pipeline.sh BASE NEW [RESULTS]: may the build of commit NEW take the place of that of commit BASE?
#
# Both builds run at once, each with its own store and load balancer, and are measured in turns. The exit status is that
# of `loadframe gate`: 0 passed, 1 a regression, 3 cannot tell. Run it anywhere in a clone; TURNS (3) and DURATION (4s)
# may be set. The application is found where this script is. A run that is not valid, as on a machine that does other
# things as well, is made again, up to TRIES (5) times; then the gate judges the last.
set -eu

if [ "${1:-}" = --measure ]; then
  # Below, on two clusters that are up.
  week=$2 results=$3 base=$4 new=$5
  measure() {
    for _ in $(seq "${TRIES:-5}"); do
      rm -rf "$3"
      loadframe bench "$week" --cluster "$1" --only visits --set clients=2 --set users=2 --warmup 500ms \
        --duration "${DURATION:-4s}" --output "$3" >/dev/null
      if python3 -c 'import json, sys; sys.exit(not json.load(open(sys.argv[1]))["verdict"]["valid"])' "$3/summary.json"
      then return
      fi
    done
  }
  for turn in $(seq "${TURNS:-3}"); do
    # In the other order each time, so that a machine that slows down does not do so for one build alone.
    if [ $((turn % 2)) = 1 ]; then
      measure "$base" "$turn" "$results/base/$turn"
      measure "$new" "$turn" "$results/new/$turn"
    else
      measure "$new" "$turn" "$results/new/$turn"
      measure "$base" "$turn" "$results/base/$turn"
    fi
  done
  exec loadframe gate "$results/new" --baseline "$results/base" --measure p50,errors --least p50=50% \
    --catch p50=200% --catch errors=5% --markdown "$results/gate.md"
fi

base=$(git rev-parse "$1^{commit}")
new=$(git rev-parse "$2^{commit}")
results=${3:-results/gate}
here=$(cd "$(dirname "$0")" && pwd -P)
top=$(cd "$here" && git rev-parse --show-toplevel)
work=$(mktemp -d)

finish() {
  for build in base new; do git -C "$top" worktree remove --force "$work/$build" 2>/dev/null || true; done
  rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM
git -C "$top" worktree add --quiet --detach "$work/base" "$base"
git -C "$top" worktree add --quiet --detach "$work/new" "$new"

app=${here#"$top"/} name=gate-$$
status=0
# A cluster with a command ends with it, and so does one whose command is another cluster with one.
loadframe cluster up "$name-base" --store "$work/base/$app" --cpus 0.5 --cores 0 --set store=mongodb -- \
  loadframe cluster up "$name-new" --store "$work/new/$app" --cpus 0.5 --cores 0 --set store=mongodb -- \
  "$here/pipeline.sh" --measure "$here/week.yaml" "$results" "$name-base" "$name-new" || status=$?
exit "$status"
