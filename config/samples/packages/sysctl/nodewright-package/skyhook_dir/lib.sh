# What the steps share; each begins with: . "$STEP_ROOT/lib.sh"
# SKYHOOK_DIR is what both this agent and earlier ones set.
set -euf

wanted=$SKYHOOK_DIR/configmaps/sysctl.conf
# Read by the host at each boot.
target=/etc/sysctl.d/90-nodewright-sysctl.conf
# The values that the host had before, as "key value": what uninstall restores.
before=/var/lib/nodewright-sysctl/before

# settings FILE prints its settings as "key value". The last line may have no end,
# as those of a configMap often have none: read would not see it.
settings() {
  awk '/^[[:space:]]*([#;]|$)/ { next }
    { sub(/^[[:space:]]+/, ""); sub(/[[:space:]]+$/, ""); sub(/[[:space:]]*=[[:space:]]*/, " "); print }' "$1"
}

# plain puts one space between words: the kernel prints tabs. No pattern is
# expanded (set -f).
plain() {
  # shellcheck disable=SC2086
  echo $*
}

# current KEY fails where the kernel has no such parameter.
current() {
  value_now=$(sysctl -n "$1") && plain "$value_now"
}

# has KEY FILE tells whether a file of "key value" lines has the key.
has() {
  cut -d ' ' -f 1 "$2" | grep -qxF -e "$1"
}

# write FILE takes its new content from stdin and replaces it as a whole, so that
# a power cut leaves the old one or the new one.
write() {
  cat >"$1.new"
  sync
  mv "$1.new" "$1"
}
