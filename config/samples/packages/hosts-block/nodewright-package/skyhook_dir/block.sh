#!/bin/sh
# Keeps lines from the configMap in a file of the host, between two lines that
# name the block, and leaves the rest of the file alone:
#
#   block.sh put|check|remove|gone FILE
#
# BLOCK, the name of the block, is set in config.json; the lines are the file
# hosts of the configMap. Each may run again at any time.
set -eu

verb=$1
# A file that is a link stays one.
file=$(readlink -f "$2")
lines=$SKYHOOK_DIR/configmaps/hosts
begin="# BEGIN $BLOCK"
end="# END $BLOCK"

# without prints the file without the block. A block without its end is left
# alone and fails: who knows how far it reached.
without() {
  awk -v begin="$begin" -v end="$end" '
    $0 == begin { inside = 1; next }
    inside && $0 == end { inside = 0; next }
    !inside { print }
    END { exit inside }
  ' "$file"
}

block() {
  echo "$begin"
  # The last line may have no end.
  awk '{ print }' "$lines"
  echo "$end"
}

# replace takes the new content from stdin. Owner and mode stay; a power cut
# leaves the old file or the new one.
replace() {
  new=$file.nodewright-new
  cp -p "$file" "$new"
  cat >"$new"
  sync
  mv "$new" "$file"
}

inside() {
  awk -v begin="$begin" -v end="$end" '$0 == begin { on = 1 } on { print } $0 == end { on = 0 }' "$file"
}

case $verb in
put)
  rest=$(without && echo .) || { echo "$file: block $BLOCK has no end: mend it by hand" >&2; exit 1; }
  { printf %s "${rest%.}"; block; } | replace
  ;;
remove)
  rest=$(without && echo .) || { echo "$file: block $BLOCK has no end: mend it by hand" >&2; exit 1; }
  printf %s "${rest%.}" | replace
  ;;
check)
  [ "$(inside)" = "$(block)" ] || { echo "$file does not hold the block as it should be:" >&2; inside >&2; exit 1; }
  ;;
gone)
  ! grep -nF -e "$begin" -e "$end" "$file" >&2 || exit 1
  ;;
*)
  echo "block.sh: verb '$verb' is not known, want put, check, remove or gone" >&2
  exit 2
  ;;
esac
