#!/bin/sh
# Installs the program `kernels` from a release: see usage below, and docs/getting.md.
#
# A release's copy of this script names that release (release/installer). The last line calls all the rest, so that a
# copy that was cut off on its way does nothing.
set -eu

FROM=''
VERSION=''

usage() {
  cat <<'END'
install.sh [--to FOLDER] [--version VERSION] [--from URL] [--attested]

Downloads a release of the program `kernels` and puts it into a folder, in place of an older one in one rename. Uses the
network: curl reads URL/releases. Needs no root; changes no other file.

  --to FOLDER        where the program goes [default: ~/.local/bin]
  --version VERSION  the release, such as 0.1.0 [default: that of this script, else the latest]
  --from URL         the repository, such as https://github.com/OWNER/REPOSITORY [default: that of this script]
  --attested         fail where the build attestation cannot be checked; else this is said, and the SHA-256 alone holds

Exit codes: 0 installed, 1 failed, 2 wrong usage, 3 refused, because FOLDER/kernels is not this program.
END
}

stop() { # CODE MESSAGE
  printf 'install.sh: %s\n' "$2" >&2
  exit "$1"
}

# get URL OPTION...
get() {
  # A release on this machine may come without TLS.
  case $1 in http://*) protocol='=http' ;; *) protocol='=https' ;; esac
  curl --fail --silent --show-error --location --proto "$protocol" --retry 2 --connect-timeout 20 "$@"
}

# download URL FILE
download() {
  get "$1" --output "$2" ||
    stop 1 "$1 could not be downloaded; $from/releases lists the releases and their files. Nothing was installed"
}

# The system in the names of releases, or an error that says what there is.
target() {
  case $(uname -m) in
    x86_64 | amd64) machine=x86_64 ;;
    aarch64 | arm64) machine=aarch64 ;;
    *) stop 1 "there is no release for $(uname -m), only for x86_64 and aarch64" ;;
  esac
  case $(uname -s) in
    Linux) echo "$machine-unknown-linux-gnu" ;;
    Darwin) echo "$machine-apple-darwin" ;;
    *) stop 1 "there is no release for $(uname -s), only for Linux and macOS" ;;
  esac
}

# Releases for Linux need glibc 2.28.
glibc() {
  [ "$(uname -s)" = Linux ] || return 0
  libc=$(getconf GNU_LIBC_VERSION 2>/dev/null) || libc='another C library'
  number=${libc#glibc 2.}
  case ${number%%.*} in
    '' | *[!0-9]*) ;;
    *) if [ "${number%%.*}" -ge 28 ]; then return 0; fi ;;
  esac
  stop 1 "the program needs glibc 2.28 or later, and this system has $libc"
}

sha256() {
  if command -v sha256sum >/dev/null; then sha256sum <"$1"; else shasum -a 256 <"$1"; fi | cut -c1-64
}

# Checks who built an archive. Sets `checked`, or `unchecked` to the reason why not.
attestation() {
  unchecked=''
  repository=${from#https://github.com/}
  if [ "$repository" = "$from" ]; then
    unchecked="$from is not on GitHub"
  elif ! version_of_gh=$(gh --version 2>/dev/null); then
    unchecked='the program gh is not here'
  else
    version_of_gh=${version_of_gh#gh version }
    minor=${version_of_gh#2.}
    # Before 2.67, `gh attestation verify` passed an archive that had no attestation.
    case $version_of_gh:${minor%%.*} in
      2.*:[0-9] | 2.*:[1-5][0-9] | 2.*:6[0-6] | [01].*) unchecked='gh is older than 2.67' ;;
    esac
  fi
  if [ -z "$unchecked" ]; then
    status=0
    said=$(gh attestation verify "$1" --repo "$repository" \
      --signer-workflow "$repository/.github/workflows/release.yml" 2>&1 </dev/null) || status=$?
    case $status in
      0) checked="$checked, the attestation of $repository" ;;
      4) unchecked='gh is not logged in' ;;
      *) stop 1 "$url has no valid attestation of $repository: $said. Nothing was installed" ;;
    esac
  fi
  if [ -n "$unchecked" ] && [ -n "$attested" ]; then
    stop 1 "the attestation cannot be checked: $unchecked. Nothing was installed"
  fi
}

# Whether a file is a program of ours, which may be replaced. A package manager's script or link is not.
ours() {
  if [ -h "$1" ] || [ ! -f "$1" ]; then return 1; fi
  case $(od -An -tx1 -N4 "$1" | tr -d ' \n') in 7f454c46 | cffaedfe) ;; *) return 1 ;; esac
  case $("$1" --version 2>/dev/null </dev/null) in 'kernels '[0-9]*) ;; *) return 1 ;; esac
}

main() {
  to='' version=$VERSION from=$FROM attested=''
  while [ $# -gt 0 ]; do
    case $1 in
      --to | --version | --from) [ $# -gt 1 ] || stop 2 "$1 needs a value; --help shows the options" ;;
    esac
    case $1 in
      --to) to=$2 && shift ;;
      --version) version=${2#v} && shift ;;
      --from) from=${2%/} && shift ;;
      --attested) attested=1 ;;
      --help) usage && exit 0 ;;
      *) stop 2 "unknown argument $1; --help shows the options" ;;
    esac
    shift
  done
  case $from in
    '') stop 2 'this copy names no repository: --from https://github.com/OWNER/REPOSITORY' ;;
    *[!A-Za-z0-9./:_-]*) stop 2 "--from $from is not the address of a repository" ;;
    https://?* | http://127.0.0.1:* | http://localhost:*) ;;
    *) stop 2 "--from $from: only https, and http from this machine" ;;
  esac
  if [ -z "$to" ]; then
    [ -n "${HOME-}" ] || stop 2 'HOME is not set: name a folder with --to'
    to=$HOME/.local/bin
  fi
  case $to in /*) ;; *) to=$PWD/${to#./} ;; esac
  case $to in /?*/) to=${to%/} ;; esac
  for tool in curl tar gzip od; do command -v "$tool" >/dev/null || stop 1 "the program $tool is missing"; done
  command -v sha256sum >/dev/null || command -v shasum >/dev/null || stop 1 'the programs sha256sum and shasum are missing'
  target=$(target)
  glibc

  work=$(mktemp -d)
  new=''
  trap 'rm -rf "$work" ${new:+"$new"}' EXIT
  trap 'exit 130' HUP INT TERM
  if [ -z "$version" ]; then
    # The address to which it leads ends with the tag.
    version=$(get "$from/releases/latest" --head --output /dev/null --write-out '%{url_effective}') ||
      stop 1 "$from/releases/latest cannot be read: name a release with --version"
    version=${version##*/v}
  fi
  case $version in *[!A-Za-z0-9.+-]*) stop 2 "$version is not a version: name a release with --version" ;; esac
  name=kernels-$version-$target
  url=$from/releases/download/v$version/$name.tar.gz
  download "$url" "$work/$name.tar.gz"
  download "$url.sha256" "$work/sha256"
  read -r wanted _ <"$work/sha256" || :
  found=$(sha256 "$work/$name.tar.gz")
  if [ "${#wanted}" != 64 ] || [ "$found" != "$wanted" ]; then
    stop 1 "$url is damaged or was changed: its SHA-256 is $found, and $url.sha256 says ${wanted:-nothing}. Nothing was installed"
  fi
  checked=SHA-256
  attestation "$work/$name.tar.gz"

  program=$to/kernels
  before=''
  if [ -e "$program" ] || [ -h "$program" ]; then
    ours "$program" || stop 3 "$program is there and is not this program: remove it, or name another folder with --to"
    before=", in place of $("$program" --version </dev/null)"
  fi
  mkdir -p "$to" || stop 1 "$to cannot be made: name another folder with --to"
  new=$(mktemp "$to/.kernels-XXXXXX") || stop 1 "$to cannot be written: name another folder with --to"
  # One file of the archive, to a name that this script chose.
  tar -xzOf "$work/$name.tar.gz" "$name/kernels" >"$new" || stop 1 "$url has no $name/kernels. Nothing was installed"
  chmod 755 "$new"
  said=$("$new" --version </dev/null) || stop 1 "the program of $url does not run here. Nothing was installed"
  case "$said " in "kernels $version "*) ;; *) stop 1 "$url is not that version: it says $said. Nothing was installed" ;; esac
  mv -f "$new" "$program"

  echo "installed $said as $program$before"
  echo "checked: $checked${unchecked:+; the attestation was not, because $unchecked}"
  case ":${PATH-}:" in
    *":$to:"*)
      first=$(command -v kernels)
      if [ "$first" != "$program" ]; then echo "another is earlier in PATH: $first"; fi
      ;;
    *) echo "$to is not in PATH: export PATH=\"$to:\$PATH\"" ;;
  esac
}

{ main "$@"; exit; }
