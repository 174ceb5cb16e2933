# Settings shared by the cluster's scripts; each can be overridden from the environment.
: "${KUBERNETES_VERSION:=v1.34.4}"
: "${HELM_VERSION:=v3.19.0}"
# What is built once and kept: programs, images.
: "${CLUSTER_CACHE:=${XDG_CACHE_HOME:-$HOME/.cache}/nvshare-cluster}"
: "${CLUSTER_BIN:=$CLUSTER_CACHE/bin}"
# What one cluster run leaves behind: logs, keys, etcd's data. Removed by a successful stop, kept after a failure.
: "${CLUSTER_RUN:=/tmp/nvshare-cluster}"
export KUBERNETES_VERSION HELM_VERSION CLUSTER_CACHE CLUSTER_BIN CLUSTER_RUN
