#!/usr/bin/env bash
# OpenSSH 9.2 answers a client that forwards a Unix socket, where sshd has
# "AllowStreamLocalForwarding no", with "connect failed: open failed": the same words as for a socket
# that is not there. Only TCP forwardings that are forbidden are "administratively prohibited". Whoever
# tells a policy from a missing engine by these words blames the engine for the policy.
#
# The script runs Debian's sshd in a temporary folder, and fails if that changes. Needs root.
set -euo pipefail
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$work"
# The packages are unpacked here, not installed.
for package in openssh-server openssh-client libwrap0 libcbor0.8 libfido2-1 libnsl2 libtirpc3; do
  apt-get download -qq "$package" >/dev/null 2>&1 || { echo "cannot fetch $package: run apt-get update" >&2; exit 1; }
done
for file in *.deb; do dpkg-deb -x "$file" root; done
export LD_LIBRARY_PATH="$PWD/root/lib/$(uname -m)-linux-gnu:$PWD/root/usr/lib/$(uname -m)-linux-gnu"
ssh=$PWD/root/usr/bin/ssh
mkdir -p /run/sshd
root/usr/bin/ssh-keygen -q -t ed25519 -N '' -f key
chmod 711 .
port=$((20000 + RANDOM % 20000))
seen() { # LINE FORWARDING: what the client says when something connects to the forwarding
  "$PWD/root/usr/sbin/sshd" -D -e -f /dev/null -p "$port" -h "$PWD/key" -o ListenAddress=127.0.0.1 -o AuthorizedKeysFile="$PWD/key.pub" -o StrictModes=no \
    -o UsePAM=no -o PermitRootLogin=yes -o PidFile=none -o "$1" 2>server.log &
  server=$!
  until grep -q 'Server listening' server.log; do kill -0 "$server" || { cat server.log >&2; exit 1; }; sleep 0.1; done
  rm -f near
  "$ssh" -F none -i key -o BatchMode=yes -o StrictHostKeyChecking=accept-new -o UserKnownHostsFile="$PWD/known" -N -L "$2" -p "$port" 127.0.0.1 2>client.log &
  local client=$!
  until [ -S near ]; do kill -0 "$client" || { cat client.log >&2; exit 1; }; sleep 0.1; done
  perl -MIO::Socket::UNIX -e 'my $s = IO::Socket::UNIX->new(Peer => "near") or die; local $/; <$s>'
  for _ in {1..100}; do ! grep -q 'open failed' client.log || break; sleep 0.1; done
  kill "$client" "$server"
  wait "$client" "$server" || true
  server=
  sed -n 's/.*: \([a-z ]*\): open failed.*/\1/p' client.log | tail -1
}
socket=$(seen 'AllowStreamLocalForwarding no' "$PWD/near:/run/engine.sock")
missing=$(seen 'AllowStreamLocalForwarding yes' "$PWD/near:$PWD/not-there.sock")
tcp=$(seen 'AllowTcpForwarding no' "$PWD/near:127.0.0.1:9")
echo "a forbidden socket: $socket"
echo "a missing socket: $missing"
echo "a forbidden TCP port: $tcp"
[ "$socket" = "$missing" ] && [[ $socket = *"connect failed"* ]] && [[ $tcp = *"administratively prohibited"* ]] ||
  { echo "OpenSSH has changed its answers" >&2; exit 1; }
