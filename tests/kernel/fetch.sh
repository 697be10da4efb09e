#!/bin/sh
# Unpack Debian's newest linux-image-amd64 into a cache folder for tests/kernel, unless it is there; print its vmlinuz.
# The folder: CELLCRYPT_KERNEL_CACHE, else cellcrypt/kernel in XDG_CACHE_HOME or ~/.cache. Nothing is installed.
set -eu

cache="${CELLCRYPT_KERNEL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/cellcrypt/kernel}"
package=$(apt-cache depends linux-image-amd64 | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
version=$(apt-cache policy "$package" | sed -n 's/^ *Candidate: //p')
if [ -z "$package" ] || [ -z "$version" ]; then
    echo "apt knows no linux-image-amd64: is this Debian for amd64, and has 'apt-get update' run?" >&2
    exit 1
fi

if [ "$(cat "$cache/version" 2>/dev/null || true)" != "$package $version" ]; then
    mkdir -p "$cache"
    work=$(mktemp -d "$cache/unpack.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    (cd "$work" && apt-get download -qq "$package" >&2)
    dpkg -x "$work"/*.deb "$work/root"
    rm -rf "$cache/root"
    mv "$work/root" "$cache/root"
    echo "$package $version" >"$cache/version"
fi
ls "$cache"/root/boot/vmlinuz-*
