# Settings shared by the cluster's scripts and by settings.py; each can be overridden from the environment.
#
# KUBERNETES selects the release; the newest is the default. From 1.36 on, containerd 2 and etcd are built as well:
# Debian's containerd 1.6 gives no CDI devices to kubelet, and Debian's etcd 3.4 is older than what those releases expect.
: "${KUBERNETES:=1.37}"
case "$KUBERNETES" in
  1.34) : "${KUBERNETES_VERSION:=v1.34.4}" "${CONTAINERD_VERSION:=}" "${ETCD_VERSION:=}" ;;
  1.36) : "${KUBERNETES_VERSION:=v1.36.3}" "${CONTAINERD_VERSION:=v2.4.2}" "${ETCD_VERSION:=v3.6.6}" ;;
  1.37) : "${KUBERNETES_VERSION:=v1.37.1}" "${CONTAINERD_VERSION:=v2.4.2}" "${ETCD_VERSION:=v3.6.6}" ;;
  *) echo "cluster: KUBERNETES=$KUBERNETES is unknown; it is one of 1.34, 1.36, 1.37" >&2; exit 2 ;;
esac
: "${HELM_VERSION:=v3.19.0}"
: "${KUEUE_VERSION:=v0.19.0}"
# Of all Kubernetes programs: `Name=true,Name=false`. With DRAConsumableCapacity and DRAExtendedResource, and
# CONTAINERD_VERSION=v2.4.2, most stories of the DRA driver run on 1.34 too.
: "${CLUSTER_FEATURE_GATES:=}"
# What is built once and kept: programs, images. Each release of each program has a directory of its own.
: "${CLUSTER_CACHE:=${XDG_CACHE_HOME:-$HOME/.cache}/nvshare-cluster}"
: "${CLUSTER_TOOLS:=$CLUSTER_CACHE/bin}"
: "${CLUSTER_BIN:=$CLUSTER_CACHE/bin-$KUBERNETES_VERSION}"
: "${CONTAINERD_BIN:=$CLUSTER_CACHE/bin-containerd-$CONTAINERD_VERSION}"
: "${ETCD_BIN:=$CLUSTER_CACHE/bin-etcd-$ETCD_VERSION}"
: "${KUEUE_TYPES:=$CLUSTER_CACHE/kueue-types-$KUEUE_VERSION}"
: "${KUBELET_API:=$CLUSTER_CACHE/kubelet-api-$KUBERNETES_VERSION}"
# What a cluster needs while it runs: keys, etcd's data, containers. Its end removes all of it but the logs.
: "${CLUSTER_RUN:=/tmp/nvshare-cluster}"
export KUBERNETES KUBERNETES_VERSION CLUSTER_FEATURE_GATES CONTAINERD_VERSION ETCD_VERSION HELM_VERSION
export KUEUE_VERSION KUEUE_TYPES KUBELET_API CLUSTER_CACHE CLUSTER_TOOLS CLUSTER_BIN CONTAINERD_BIN ETCD_BIN CLUSTER_RUN
