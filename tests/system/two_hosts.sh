#!/usr/bin/env bash
# Train in two network namespaces that are joined by a cable, as on two hosts:
#   two_hosts.sh RECIPE RUN_DIR        (needs the rights of root; cleans up behind itself)
# Only the first host is given the run directory: the second one must not need it.
set -euo pipefail
recipe=$1 run=$2
python=${PYTHON:-python}
one=s2s-$$-a two=s2s-$$-b

clean() {
    ip netns del "$one" 2>/dev/null || true
    ip netns del "$two" 2>/dev/null || true
}
trap clean EXIT
ip netns add "$one"
ip netns add "$two"
ip link add cable netns "$one" type veth peer name cable netns "$two"
for host in "$one 10.203.0.1" "$two 10.203.0.2"; do
    read -r name address <<<"$host"
    ip -n "$name" address add "$address/24" dev cable
    ip -n "$name" link set cable up
    ip -n "$name" link set lo up
done

# host NAMESPACE ADDRESS RUN_DIR IS_HOST; a real host would find the last out by its name
host() {
    GLOO_SOCKET_IFNAME=cable OMP_NUM_THREADS=1 ip netns exec "$1" \
        "$python" -m torch.distributed.run --nnodes 2 --nproc-per-node 1 \
        --rdzv-backend c10d --rdzv-endpoint 10.203.0.1:29400 --rdzv-id two-hosts \
        --rdzv-conf "is_host=$4" --local-addr "$2" -m seq2seq train "$recipe" "run_dir=$3"
}
host "$two" 10.203.0.2 /nowhere/run false &
second=$!
host "$one" 10.203.0.1 "$run" true
wait "$second"
