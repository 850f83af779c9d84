// Package fakehost has what the host of a test needs and a directory tree does
// not have.
package fakehost

// Systemctl is a shell script that does what packages and interrupts need of the
// command: enable and disable for timers, is-enabled, is-active, restart,
// daemon-reload. A unit is a file in /etc/systemd/system; one that runs has a
// file /run/active-UNIT.
//
// It first does what /run/systemctl.sh says, if there is one, with the same
// arguments: so a test sees calls, or lets them fail.
const Systemctl = `#!/bin/sh
set -eu
[ ! -e /run/systemctl.sh ] || sh /run/systemctl.sh "$@"
verb=$1; shift
now=no
while [ "${1:-}" = --now ] || [ "${1:-}" = --quiet ]; do [ "$1" = --quiet ] || now=yes; shift; done
units=/etc/systemd/system
wanted=$units/timers.target.wants
[ "$verb" = daemon-reload ] && exit 0
case $verb in
is-enabled) [ -L "$wanted/$1" ]; exit ;;
is-active) [ -e "/run/active-$1" ]; exit ;;
esac
[ -e "$units/$1" ] || { echo "Unit $1 does not exist" >&2; exit 5; }
case $verb in
enable) mkdir -p $wanted; ln -sf "$units/$1" "$wanted/$1"; [ $now = no ] || : >"/run/active-$1" ;;
disable) rm -f "$wanted/$1"; [ $now = no ] || rm -f "/run/active-$1" ;;
restart) : >"/run/active-$1" ;;
*) exit 64 ;;
esac
`
