#!/bin/sh
# step.sh MODE NAME VERSION: notes that it ran, does what the configMap says for
# this mode, and then leaves a file with the version, as a package would.
set -eu
# What the script does on SIGTERM decides how the step ends.
trap : TERM
mode=$1 name=$2 version=$3
dir=/etc/e2e
mkdir -p $dir /var/lib/e2e
echo "$name $version $mode begin ${PREVIOUS_VERSION-}" >>/var/lib/e2e/journal
echo "$mode of $name $version"
script=$SKYHOOK_DIR/configmaps/$mode.sh
if [ -e "$script" ]; then
	sh "$script"
fi
case $mode in
apply | upgrade) echo "$version" >$dir/$name ;;
apply-check | upgrade-check) test "$(cat $dir/$name)" = "$version" ;;
config)
	if [ -e "$SKYHOOK_DIR/configmaps/settings" ]; then
		cp "$SKYHOOK_DIR/configmaps/settings" $dir/$name.settings
	fi
	;;
config-check)
	if [ -e "$SKYHOOK_DIR/configmaps/settings" ]; then
		cmp "$SKYHOOK_DIR/configmaps/settings" $dir/$name.settings
	fi
	;;
uninstall) rm -f $dir/$name $dir/$name.settings ;;
uninstall-check) test ! -e $dir/$name ;;
esac
echo "$name $version $mode end" >>/var/lib/e2e/journal
