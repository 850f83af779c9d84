#!/bin/sh
# Sets the parameters of sysctl.conf, now and for each boot. A parameter that is
# in the file no more gets the value that it had before. May run again at any time.
. "$STEP_ROOT/lib.sh"

mkdir -p "${before%/*}" "${target%/*}"
[ -e "$before" ] || : | write "$before"
settings "$wanted" >"$before.wanted"

# First remember, then change: so nothing that was changed is ever remembered.
cp "$before" "$before.all"
while read -r key _; do
  if ! has "$key" "$before"; then
    value=$(current "$key") || { echo "the kernel has no parameter $key" >&2; exit 1; }
    echo "$key $value" >>"$before.all"
  fi
done <"$before.wanted"
write "$before" <"$before.all"

write "$target" <"$wanted"
sysctl -p "$target"

# What is wanted no more.
while read -r key value; do
  if has "$key" "$before.wanted"; then
    echo "$key $value"
  else
    sysctl -w "$key=$value" >&2
  fi
done <"$before.all" >"$before.keep"
write "$before" <"$before.keep"
rm -f "$before.wanted" "$before.all" "$before.keep"
