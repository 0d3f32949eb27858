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

# Whether this nginx is at least of version $1, as a number: 1029007 is 1.29.7.
is_since() {
  nginx -v 2>&1 | awk -v least="$1" 'match($0, /nginx\/[0-9.]+/) { split(substr($0, RSTART + 6, RLENGTH - 6), v, "."); new = v[1] * 1000000 + v[2] * 1000 + v[3] >= least } END { exit !new }'
}

# Since 1.29.7 nginx can keep connections of different locations apart.
keeps=
if is_since 1029007; then keeps=1; fi

# nginx queries the resolver itself and ignores search domains, so it gets the pod's search domains as variables.
awk -v keeps="$keeps" '
  function server(address, role) {
    sub(/\$own_domain/, "." own, address); sub(/\$cluster_domain/, cluster, address)
    return "server " address (address ~ /^[0-9.:]+$/ ? "" : " resolve") " max_fails=0" role ";"
  }
  function fail(text) { print "prepare: " text > "/dev/stderr"; failed = 1; exit 1 }
  # A server is listed several times, so that a connection that one replica refuses is tried again, most likely at another. It is
  # kept for a shorter time than servers keep it idle (uvicorn 5 s) and pods take to end (15 s), and new replicas soon get calls.
  FILENAME == main {
    if (keeps && $1 == "#" && $2 == "pool") pools[++count] = $3 " " $4 " " $5 " " $6
    next
  }
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
    print "map \"\" $keeps { default \"" keeps "\"; }"
    for (i = 1; i <= count; i++) {
      split(pools[i], pool, " ")
      print "upstream " pool[1] " {"
      print "zone pools " (64 + 16 * count) "k; keepalive " pool[3] " local; keepalive_timeout 3s; keepalive_time 5s;"
      # Where the model has a router, its Service is the reserve: a call that no router accepts goes to a replica at random.
      if (pool[4] != "") print server(pool[4], "")
      for (try = 0; try < (pool[4] == "" ? 8 : 7); try++) print server(pool[2], pool[4] == "" ? "" : " backup")
      print "}"
    }
  }
' main="$main" "$main" "$resolv" > "$runtime"

# The prefix of this pod's request ids.
echo "map \"\" \$instance { default $(od -An -N8 -tx1 /dev/urandom | tr -d ' \n'); }" >> "$runtime"

# Since 1.27.4 nginx can keep idle connections open briefly on shutdown, so that a request sent on one is not lost.
if is_since 1027004; then
  echo "keepalive_min_timeout 10s;" >> "$runtime"
fi

# njs of 0.9.9 or newer gives bodies a deadline, and delays the first calls until nginx has looked up its servers.
set -- $(awk '$1 == "#" && $2 == "script" { print $3, $4; exit }' "$main")
if [ $# -gt 0 ]; then
  folder=$(dirname "$runtime") load=
  : > "$folder/modules.conf"; : > "$folder/body.conf"; echo "return 200;" > "$folder/start.conf"
  if [ -n "${2:-}" ]; then load="load_module $2;"; fi
  printf '%s pid "%s/probe.pid"; error_log stderr emerg; events {} http { js_import gateway from %s; server { location / { js_access gateway.read; } } }\n' \
    "$load" "$folder" "$1" > "$folder/probe.conf"
  if nginx -t -q -c "$folder/probe.conf" 2> /dev/null; then
    if ! grep -q '^load_module' "$main"; then echo "$load" > "$folder/modules.conf"; fi
    echo "js_import gateway from $1; js_shared_dict_zone zone=startup:32k type=number;" >> "$runtime"
    whole=_whole; echo 'js_set $whole_body gateway.whole;' >> "$runtime"
    echo "js_access gateway.read;" > "$folder/body.conf"
    awk '$1 == "upstream" { print $2 }' "$runtime" > "$folder/pools"
    echo "set \$pools_file \"$folder/pools\"; js_content gateway.started;" > "$folder/start.conf"
  else
    whole=; echo 'map "" $whole_body { default ""; }' >> "$runtime"
  fi
  echo "map \"\" \$whole { default \"$whole\"; }" >> "$runtime"
fi

exec nginx -t -q -c "$main"
