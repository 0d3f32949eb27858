#!/bin/sh
# Writes the values that only the running pod knows to an include file, then checks the configuration with nginx -t. A pod whose
# configuration nginx rejects stops here with nginx's error in its log, while the old pods continue to serve.
#
# usage: prepare.sh <nginx.conf> <keys.conf> <runtime.conf to write> [resolv.conf]
# KEYS_FINGERPRINT, if set, is the fingerprint of the keys that this pod expects.
set -eu
main=$1 keys=$2 runtime=$3 resolv=${4:-/etc/resolv.conf}

# The node may still have the old Secret: stop, and the next attempt finds the new one.
if [ -n "${KEYS_FINGERPRINT:-}" ] && [ "$(head -n 1 "$keys")" != "# fingerprint $KEYS_FINGERPRINT" ]; then
  echo "prepare: the mounted keys do not have the expected fingerprint ($KEYS_FINGERPRINT). If this continues, run an update." >&2
  exit 1
fi

# nginx queries the resolver itself and ignores search domains, so it gets the pod's search domains as variables.
awk '
  function fail(text) { print "prepare: " text > "/dev/stderr"; failed = 1; exit 1 }
  $1 == "nameserver" && $2 ~ /^[0-9A-Fa-f.:]+$/ { servers = servers " " (index($2, ":") ? "[" $2 "]" : $2) }
  $1 == "search" { for (i = 2; i <= NF; i++) {
    if (own == "" && $i ~ /^[a-z0-9-]+\.svc\.[a-z0-9.-]+$/) own = $i
    if (cluster == "" && $i ~ /^svc\.[a-z0-9.-]+$/) cluster = substr($i, 5)
  } }
  END {
    if (failed) exit 1
    if (servers == "") fail("no nameserver in resolv.conf. Set dnsPolicy ClusterFirst.")
    if (own == "" || cluster == "") fail("no search domain <namespace>.svc.<cluster domain> in resolv.conf. Set dnsPolicy ClusterFirst.")
    sub(/\.$/, "", own); sub(/\.$/, "", cluster)
    print "resolver" servers " valid=10s;"
    print "resolver_timeout 5s;"
    print "map \"\" $own_domain { default \"." own "\"; }"
    print "map \"\" $cluster_domain { default \"" cluster "\"; }"
  }
' "$resolv" > "$runtime"

# The prefix of this pod's request ids.
echo "map \"\" \$instance { default $(od -An -N8 -tx1 /dev/urandom | tr -d ' \n'); }" >> "$runtime"

# Since 1.27.4 nginx can keep idle connections open briefly on shutdown, so that a request sent on one is not lost.
if nginx -v 2>&1 | awk -F'[/. ]' '{ for (i = 1; i < NF; i++) if ($i == "nginx") exit !($(i+1) * 1000000 + $(i+2) * 1000 + $(i+3) >= 1027004) ; exit 1 }'; then
  echo "keepalive_min_timeout 10s;" >> "$runtime"
fi

exec nginx -t -q -c "$main"
