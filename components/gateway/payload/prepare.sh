#!/bin/sh
# Writes what only the running pod knows into an include file, then has nginx check the whole configuration. A pod whose
# configuration nginx refuses stops here, with nginx's own words in the log, while the pods before it go on serving.
#
# usage: prepare.sh <nginx.conf> <keys.conf> <runtime.conf to write> [resolv.conf]
# KEYS_FINGERPRINT, when set, is the mark of the keys that this pod was made for.
set -eu
main=$1 keys=$2 runtime=$3 resolv=${4:-/etc/resolv.conf}

# A node may still hold the Secret of before: stop, and the next try finds the new one.
if [ -n "${KEYS_FINGERPRINT:-}" ] && [ "$(head -n 1 "$keys")" != "# fingerprint $KEYS_FINGERPRINT" ]; then
  echo "prepare: the mounted keys are not those this pod was made for ($KEYS_FINGERPRINT); run an update if this stays" >&2
  exit 1
fi

# nginx asks the resolver itself and knows no search domains, so the pod's are handed over as variables.
awk '
  function refuse(text) { print "prepare: " text > "/dev/stderr"; failed = 1; exit 1 }
  $1 == "nameserver" && $2 ~ /^[0-9A-Fa-f.:]+$/ { servers = servers " " (index($2, ":") ? "[" $2 "]" : $2) }
  $1 == "search" { for (i = 2; i <= NF; i++) {
    if (own == "" && $i ~ /^[a-z0-9-]+\.svc\.[a-z0-9.-]+$/) own = $i
    if (cluster == "" && $i ~ /^svc\.[a-z0-9.-]+$/) cluster = substr($i, 5)
  } }
  END {
    if (failed) exit 1
    if (servers == "") refuse("no nameserver in resolv.conf; the pod needs dnsPolicy ClusterFirst")
    if (own == "" || cluster == "") refuse("no search domain <namespace>.svc.<cluster domain> in resolv.conf; the pod needs dnsPolicy ClusterFirst")
    sub(/\.$/, "", own); sub(/\.$/, "", cluster)
    print "resolver" servers " valid=10s;"
    print "resolver_timeout 5s;"
    print "map \"\" $own_domain { default \"." own "\"; }"
    print "map \"\" $cluster_domain { default \"" cluster "\"; }"
  }
' "$resolv" > "$runtime"

# What request ids of this pod start with.
echo "map \"\" \$instance { default $(od -An -N8 -tx1 /dev/urandom | tr -d ' \n'); }" >> "$runtime"

# Since 1.27.4 nginx can keep idle connections open a little on shutdown, so that a request under way on one is not lost.
if nginx -v 2>&1 | awk -F'[/. ]' '{ for (i = 1; i < NF; i++) if ($i == "nginx") exit !($(i+1) * 1000000 + $(i+2) * 1000 + $(i+3) >= 1027004) ; exit 1 }'; then
  echo "keepalive_min_timeout 10s;" >> "$runtime"
fi

exec nginx -t -q -c "$main"
