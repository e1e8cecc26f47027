/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Variables that the stack does not read: those of NCCL 2.32 and 2.28 that have no effect here, and
 * those of other programs. A variable that the stack begins to read moves to the table of param.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base_state.h"
#include "core/base/macros.h"
#include "core/base/param_row.h"
#include "core/base/word.h"
#include "core/os/os_ops.h"

enum known {
	KNOWN_BOOTSTRAP,
	KNOWN_COLLNET,
	KNOWN_COMM,
	KNOWN_DIAGNOSE,
	KNOWN_FAILOVER,
	KNOWN_GDRCOPY,
	KNOWN_GIN,
	KNOWN_GONE,
	KNOWN_IB,
	KNOWN_LAUNCH,
	KNOWN_LOG,
	KNOWN_MEMORY,
	KNOWN_MESSAGES,
	KNOWN_MNNVL,
	KNOWN_PLUGIN,
	KNOWN_PROXY,
	KNOWN_RMA,
	KNOWN_SOCKET,
	KNOWN_SWITCH,
	KNOWN_SYMMETRIC,
	KNOWN_TOPO,
	KNOWN_TUNING,
	KNOWN_OTHERS, /* read by other programs: not the stack's concern */
};

/* Completes "this version has". */
static const char *const known_lack[] = {
	[KNOWN_BOOTSTRAP] = "no such setting of its bootstrap",
	[KNOWN_COLLNET] = "no ranks with different collective networks (CollNet)",
	[KNOWN_COMM] = "no such setting of communicators",
	[KNOWN_DIAGNOSE] = "no such diagnosis",
	[KNOWN_FAILOVER] = "no probes in its failover: the receiving end reports the parts it has",
	[KNOWN_GDRCOPY] = "no copies by GDRCopy",
	[KNOWN_GIN] = "no network transfers by kernels (GIN)",
	[KNOWN_GONE] = "no such setting, and neither has NCCL 2.32",
	[KNOWN_IB] = "no such setting of HCAs",
	[KNOWN_LAUNCH] = "no such setting of launches",
	[KNOWN_LOG] = "no such setting of its log",
	[KNOWN_MEMORY] = "no such setting of memory",
	[KNOWN_MESSAGES] = "no such setting of messages",
	[KNOWN_MNNVL] = "no NVLink between hosts (MNNVL)",
	[KNOWN_PLUGIN] = "no plugins of that kind",
	[KNOWN_PROXY] = "no such setting of its proxy",
	[KNOWN_RMA] = "no one-sided operations (RMA)",
	[KNOWN_SOCKET] = "no such setting of sockets",
	[KNOWN_SWITCH] = "no reductions in NVSwitches (NVLS)",
	[KNOWN_SYMMETRIC] = "no kernels of symmetric memory and no copy engine collectives",
	[KNOWN_TOPO] = "no such setting of the topology",
	[KNOWN_TUNING] = "no such setting of its tuning",
};

struct known_row {
	const char *name;
	enum known lack;
};

/* Sorted by name. */
static const struct known_row known_rows[] = {
	{"NCCL_ALLGATHERV_ENABLE", KNOWN_TUNING},
	{"NCCL_ALLOC_P2P_NET_LL_BUFFERS", KNOWN_MESSAGES},
	{"NCCL_ASYNC_ERROR_HANDLING", KNOWN_OTHERS},
	{"NCCL_BLOCKING_WAIT", KNOWN_OTHERS},
	{"NCCL_CE_CHUNK_SIZE", KNOWN_SYMMETRIC},
	{"NCCL_CE_COLL_AG_MULTICAST_THRESHOLD", KNOWN_SYMMETRIC},
	{"NCCL_CE_INTRA_GPU_MEMCPY_ENABLE", KNOWN_SYMMETRIC},
	{"NCCL_CFT_ENABLE", KNOWN_SYMMETRIC},
	{"NCCL_CHECK_MODE", KNOWN_LAUNCH},
	{"NCCL_CHUNK_SIZE", KNOWN_TUNING},
	{"NCCL_COMM_SHRINK_SHARE_RESOURCES", KNOWN_COMM},
	{"NCCL_COMM_SPLIT_SHARE_RESOURCES", KNOWN_COMM},
	{"NCCL_CONNECT_ROUND_MAX_PEERS", KNOWN_BOOTSTRAP},
	{"NCCL_CREATE_THREAD_CONTEXT", KNOWN_GONE},
	{"NCCL_CTA_POLICY", KNOWN_LAUNCH},
	{"NCCL_DEBUG_LEVELS", KNOWN_LOG},
	{"NCCL_DEBUG_TIMESTAMP_FORMAT", KNOWN_LOG},
	{"NCCL_DEBUG_TIMESTAMP_LEVELS", KNOWN_LOG},
	{"NCCL_DESYNC_DEBUG", KNOWN_OTHERS},
	{"NCCL_DEV_API_JIT", KNOWN_GIN},
	{"NCCL_DIAGNOSTICS_ECC_THRESHOLD", KNOWN_DIAGNOSE},
	{"NCCL_DIAGNOSTICS_IB_BW_TIMEOUT", KNOWN_DIAGNOSE},
	{"NCCL_DIR", KNOWN_OTHERS},
	{"NCCL_DISABLE_MEM_MANAGER", KNOWN_MEMORY},
	{"NCCL_ELASTIC_BUFFER_REGISTER", KNOWN_MEMORY},
	{"NCCL_ENABLE_VERSION_CHECK", KNOWN_COMM},
	{"NCCL_ENQUEUE_REARCH_ENABLE", KNOWN_LAUNCH},
	{"NCCL_ENV_PLUGIN", KNOWN_PLUGIN},
	{"NCCL_GDAKI_FORCE_MCST", KNOWN_GIN},
	{"NCCL_GDAKI_USE_RELIABLE_DB", KNOWN_GIN},
	{"NCCL_GDRCOPY_ENABLE", KNOWN_GDRCOPY},
	{"NCCL_GDRCOPY_FIFO_ENABLE", KNOWN_GDRCOPY},
	{"NCCL_GDRCOPY_FLUSH_ENABLE", KNOWN_GDRCOPY},
	{"NCCL_GDRCOPY_SYNC_ENABLE", KNOWN_GDRCOPY},
	{"NCCL_GDRCOPY_USE_INTERNAL_DMABUF", KNOWN_GDRCOPY},
	{"NCCL_GIN_COUNTER_POOL_SIZE", KNOWN_GONE},
	{"NCCL_GIN_ENABLE", KNOWN_GIN},
	{"NCCL_GIN_ERROR_QUERY_SEC", KNOWN_GIN},
	{"NCCL_GIN_GDAKI_LAG_AWARE_DISABLE", KNOWN_GIN},
	{"NCCL_GIN_GDAKI_MAX_DEST_RD_ATOMIC", KNOWN_GIN},
	{"NCCL_GIN_GDAKI_MAX_QP_RD_ATOMIC", KNOWN_GIN},
	{"NCCL_GIN_GDAKI_NIC_HANDLER", KNOWN_GIN},
	{"NCCL_GIN_GDAKI_QP_DEPTH", KNOWN_GIN},
	{"NCCL_GIN_IB_OOO_OPT", KNOWN_GIN},
	{"NCCL_GIN_IB_TC", KNOWN_GIN},
	{"NCCL_GIN_NCONNECTIONS", KNOWN_GIN},
	{"NCCL_GIN_NCONTEXTS", KNOWN_GONE},
	{"NCCL_GIN_PLUGIN", KNOWN_PLUGIN},
	{"NCCL_GIN_PLUGIN_REF_COUNT", KNOWN_PLUGIN},
	{"NCCL_GIN_PROXY_NTHREADS", KNOWN_GIN},
	{"NCCL_GIN_PROXY_POLL_BATCH", KNOWN_GIN},
	{"NCCL_GIN_PROXY_QUEUE_SIZE", KNOWN_GIN},
	{"NCCL_GIN_SIGNAL_POOL_SIZE", KNOWN_GONE},
	{"NCCL_GIN_TYPE", KNOWN_GIN},
	{"NCCL_GRAPH_HELPER_DISABLE", KNOWN_LAUNCH},
	{"NCCL_GRAPH_REGISTER", KNOWN_LAUNCH},
	{"NCCL_GRAPH_STREAM_ORDERING", KNOWN_LAUNCH},
	{"NCCL_GROUP_CUDA_STREAM", KNOWN_LAUNCH},
	{"NCCL_HIER_CE_COLL_AG_RAIL_RING_ENABLE", KNOWN_SYMMETRIC},
	{"NCCL_HIER_CE_COLL_NUM_CTX", KNOWN_SYMMETRIC},
	{"NCCL_HOME", KNOWN_OTHERS},
	{"NCCL_IBVERBS_LIB", KNOWN_IB},
	{"NCCL_IB_DATA_DIRECT", KNOWN_IB},
	{"NCCL_IB_DEVICE_PCI_ORDER", KNOWN_IB},
	{"NCCL_IB_ECE_ENABLE", KNOWN_IB},
	{"NCCL_IB_EVENT_BASED_LB", KNOWN_IB},
	{"NCCL_IB_EVENT_BASED_LB_REMOTE", KNOWN_IB},
	{"NCCL_IB_FIFO_TC", KNOWN_IB},
	{"NCCL_IB_MERGE_VFS", KNOWN_IB},
	{"NCCL_IB_MQP_RETRY_ALL", KNOWN_IB},
	{"NCCL_IB_MQP_RETRY_CNT", KNOWN_IB},
	{"NCCL_IB_MQP_RETRY_SLEEP_MSEC", KNOWN_IB},
	{"NCCL_IB_OOO_RQ", KNOWN_IB},
	{"NCCL_IB_PKEY_VALUE", KNOWN_IB},
	{"NCCL_IB_PREPOST_RECEIVE_WORK_REQUESTS", KNOWN_IB},
	{"NCCL_IB_QUERY_PORT_SPEED", KNOWN_IB},
	{"NCCL_IB_RAIL_POLICY", KNOWN_IB},
	{"NCCL_IB_RECEIVER_SIDE_MATCHING_SCHEME", KNOWN_IB},
	{"NCCL_IB_RESILIENCY_PORT_FAILOVER_MAX_ATTEMPTS", KNOWN_FAILOVER},
	{"NCCL_IB_RESILIENCY_PORT_FAILOVER_PROBE_DELAY", KNOWN_FAILOVER},
	{"NCCL_IB_RETURN_ASYNC_EVENTS", KNOWN_IB},
	{"NCCL_IB_ROUTABLE_FLID_GID_INDEX", KNOWN_IB},
	{"NCCL_IB_SORT_MERGE_NICS", KNOWN_IB},
	{"NCCL_IB_SUBNET_AWARE_ROUTING", KNOWN_IB},
	{"NCCL_IB_SUBNET_PREFIX_LEN", KNOWN_IB},
	{"NCCL_IB_USE_INLINE", KNOWN_IB},
	{"NCCL_IB_WARN_RAIL_LOCAL", KNOWN_IB},
	{"NCCL_IB_WQE_LATENCY_REPORT", KNOWN_IB},
	{"NCCL_IB_WQE_LATENCY_THRESHOLD_NS", KNOWN_IB},
	{"NCCL_IGNORE_COLLNET_MISMATCH", KNOWN_COLLNET},
	{"NCCL_IGNORE_CPU_AFFINITY", KNOWN_TOPO},
	{"NCCL_IGNORE_DISABLED_P2P", KNOWN_TOPO},
	{"NCCL_IGNORE_NET_MISMATCH", KNOWN_COMM},
	{"NCCL_INCLUDE_DIR", KNOWN_OTHERS},
	{"NCCL_IPC_USE_ABSTRACT_SOCKET", KNOWN_MEMORY},
	{"NCCL_L1_SHARED_MEMORY_CARVEOUT", KNOWN_LAUNCH},
	{"NCCL_LAUNCH_MODE", KNOWN_LAUNCH},
	{"NCCL_LAUNCH_ORDER_IMPLICIT", KNOWN_LAUNCH},
	{"NCCL_LAUNCH_RACE_FATAL", KNOWN_LAUNCH},
	{"NCCL_LEGACY_CUDA_REGISTER", KNOWN_MEMORY},
	{"NCCL_LIBRARY", KNOWN_OTHERS},
	{"NCCL_LIB_DIR", KNOWN_OTHERS},
	{"NCCL_LL128_C2C", KNOWN_TUNING},
	{"NCCL_LL128_NTHREADS", KNOWN_TUNING},
	{"NCCL_LSA_TEAM_SIZE", KNOWN_SYMMETRIC},
	{"NCCL_MEM_SYNC_DOMAIN", KNOWN_LAUNCH},
	{"NCCL_MIN_P2P_NCHANNELS", KNOWN_MESSAGES},
	{"NCCL_MNNVL_CLIQUE_ID", KNOWN_MNNVL},
	{"NCCL_MNNVL_CROSS_CLIQUE", KNOWN_MNNVL},
	{"NCCL_MNNVL_ENABLE", KNOWN_MNNVL},
	{"NCCL_MNNVL_RAIL_PER_HOST", KNOWN_MNNVL},
	{"NCCL_MNNVL_SCATTER_NETS_ENABLE", KNOWN_MNNVL},
	{"NCCL_MNNVL_UUID", KNOWN_MNNVL},
	{"NCCL_MULTI_RANK_GPU_ENABLE", KNOWN_COMM},
	{"NCCL_MULTI_SEGMENT_REGISTER", KNOWN_MEMORY},
	{"NCCL_NETDEVS_POLICY", KNOWN_TOPO},
	{"NCCL_NET_DISABLE_INTRA", KNOWN_TOPO},
	{"NCCL_NET_FORCE_FLUSH", KNOWN_PROXY},
	{"NCCL_NET_GDR_C2C", KNOWN_TOPO},
	{"NCCL_NET_GDR_READ", KNOWN_TOPO},
	{"NCCL_NET_OPTIONAL_RECV_COMPLETION", KNOWN_PROXY},
	{"NCCL_NET_OVERHEAD", KNOWN_PROXY},
	{"NCCL_NET_SHARED_BUFFERS", KNOWN_MEMORY},
	{"NCCL_NO_CACHE", KNOWN_COMM},
	{"NCCL_NUM_RMA_CTX", KNOWN_RMA},
	{"NCCL_NUM_RMA_INT_CTX", KNOWN_RMA},
	{"NCCL_NVB_PRECONNECT", KNOWN_COMM},
	{"NCCL_NVLINK_UTIL_CENTRIC_SCHED_ENABLE", KNOWN_LAUNCH},
	{"NCCL_NVLSTREE_MAX_CHUNKSIZE", KNOWN_SWITCH},
	{"NCCL_NVLS_CHUNKSIZE", KNOWN_SWITCH},
	{"NCCL_NVLS_ENABLE", KNOWN_SWITCH},
	{"NCCL_NVLS_NCHANNELS", KNOWN_SWITCH},
	{"NCCL_NVLS_UB_SIZE", KNOWN_SWITCH},
	{"NCCL_NVTX_DISABLE", KNOWN_DIAGNOSE},
	{"NCCL_OOB_NET_ENABLE", KNOWN_BOOTSTRAP},
	{"NCCL_OOB_NET_IFNAME", KNOWN_BOOTSTRAP},
	{"NCCL_P2P_EPOCH_ENABLE", KNOWN_MESSAGES},
	{"NCCL_P2P_MAX_PEERS", KNOWN_MESSAGES},
	{"NCCL_P2P_NET_CHUNKSIZE", KNOWN_MESSAGES},
	{"NCCL_P2P_NVL_CHUNKSIZE", KNOWN_MESSAGES},
	{"NCCL_P2P_PCI_CHUNKSIZE", KNOWN_MESSAGES},
	{"NCCL_P2P_PER_CHANNEL_NET_BW", KNOWN_MESSAGES},
	{"NCCL_P2P_PER_CHANNEL_REG_NET_BW", KNOWN_MESSAGES},
	{"NCCL_P2P_READ_ENABLE", KNOWN_MEMORY},
	{"NCCL_P2P_SCHEDULE_GROUP_SIZE", KNOWN_MESSAGES},
	{"NCCL_P2P_USE_CUDA_MEMCPY", KNOWN_MEMORY},
	{"NCCL_PROGRESS_APPENDOP_FREQ", KNOWN_LAUNCH},
	{"NCCL_PROGRESS_COUNTERS", KNOWN_DIAGNOSE},
	{"NCCL_PROGRESS_COUNTER_MONITOR_POLL_MS", KNOWN_DIAGNOSE},
	{"NCCL_PROGRESS_COUNTER_MONITOR_STALE_MS", KNOWN_DIAGNOSE},
	{"NCCL_PROGRESS_COUNTER_MONITOR_STALE_WARN_SEC", KNOWN_DIAGNOSE},
	{"NCCL_PROXY_APPEND_BATCH_SIZE", KNOWN_PROXY},
	{"NCCL_PROXY_CPUSET", KNOWN_PROXY},
	{"NCCL_PROXY_DUMP_SIGNAL", KNOWN_DIAGNOSE},
	{"NCCL_PXN_C2C", KNOWN_TOPO},
	{"NCCL_REPORT_CONNECT_PROGRESS", KNOWN_DIAGNOSE},
	{"NCCL_RMA_DISABLE", KNOWN_RMA},
	{"NCCL_RMA_EAGER_INIT", KNOWN_RMA},
	{"NCCL_RMA_IB_WR_BATCHSIZE", KNOWN_RMA},
	{"NCCL_RMA_MULTI_CTX_THRESHOLD", KNOWN_RMA},
	{"NCCL_RMA_PLUGIN", KNOWN_PLUGIN},
	{"NCCL_RMA_PLUGIN_REF_COUNT", KNOWN_PLUGIN},
	{"NCCL_RMA_PROXY_DUMP_SIGNAL", KNOWN_RMA},
	{"NCCL_RMA_PROXY_QUEUE_SIZE", KNOWN_RMA},
	{"NCCL_ROOT", KNOWN_OTHERS},
	{"NCCL_ROOT_DIR", KNOWN_OTHERS},
	{"NCCL_RUNTIME_CONNECT", KNOWN_COMM},
	{"NCCL_RUN_DIAGNOSTICS", KNOWN_DIAGNOSE},
	{"NCCL_RUN_RAS_DIAGNOSTICS", KNOWN_DIAGNOSE},
	{"NCCL_SET_CPU_STACK_SIZE", KNOWN_COMM},
	{"NCCL_SET_STACK_SIZE", KNOWN_LAUNCH},
	{"NCCL_SET_THREAD_NAME", KNOWN_COMM},
	{"NCCL_SHADOW_MEMPOOL_MAX_SIZE", KNOWN_SYMMETRIC},
	{"NCCL_SHM_LOCALITY", KNOWN_MEMORY},
	{"NCCL_SHM_MEMCPY_MODE", KNOWN_GONE},
	{"NCCL_SHM_USE_CUDA_MEMCPY", KNOWN_GONE},
	{"NCCL_SINGLE_PROC_MEM_REG_ENABLE", KNOWN_MEMORY},
	{"NCCL_SOCKET_INLINE", KNOWN_SOCKET},
	{"NCCL_SOCKET_MAGIC", KNOWN_SOCKET},
	{"NCCL_SOCKET_MIN_TASKSIZE", KNOWN_SOCKET},
	{"NCCL_SOCKET_POLL_TIMEOUT_MSEC", KNOWN_SOCKET},
	{"NCCL_SOCKET_RCVBUF", KNOWN_SOCKET},
	{"NCCL_SOCKET_RETRY_CNT", KNOWN_SOCKET},
	{"NCCL_SOCKET_RETRY_SLEEP_MSEC", KNOWN_SOCKET},
	{"NCCL_SOCKET_SNDBUF", KNOWN_SOCKET},
	{"NCCL_SYM_CE_THRESHOLD", KNOWN_SYMMETRIC},
	{"NCCL_SYM_CTAS", KNOWN_SYMMETRIC},
	{"NCCL_SYM_GIN_KERNELS_ENABLE", KNOWN_GIN},
	{"NCCL_SYM_KERNEL", KNOWN_SYMMETRIC},
	{"NCCL_SYM_NOWIN_ENABLE", KNOWN_SYMMETRIC},
	{"NCCL_SYM_REUSE_SYSMEM_HANDLES", KNOWN_SYMMETRIC},
	{"NCCL_SYM_RS_GIN_CHUNK_SIZE", KNOWN_GIN},
	{"NCCL_SYM_TMA_ENABLE", KNOWN_SYMMETRIC},
	{"NCCL_TESTS_DEVICE", KNOWN_OTHERS},
	{"NCCL_TESTS_MIN_BW", KNOWN_OTHERS},
	{"NCCL_TESTS_SPLIT", KNOWN_OTHERS},
	{"NCCL_TESTS_SPLIT_MASK", KNOWN_OTHERS},
	{"NCCL_THREAD_THRESHOLDS", KNOWN_TUNING},
	{"NCCL_TOPO_SPLIT_MLOPART", KNOWN_TOPO},
	{"NCCL_TUNER_CONFIG_FILE", KNOWN_OTHERS},
	{"NCCL_UID_STAGGER_RATE", KNOWN_BOOTSTRAP},
	{"NCCL_UID_STAGGER_THRESHOLD", KNOWN_BOOTSTRAP},
	{"NCCL_UNPACK_DOUBLE_NCHANNELS", KNOWN_PROXY},
	{"NCCL_VERSION", KNOWN_OTHERS},
	{"NCCL_WARN_ENABLE_DEBUG_INFO", KNOWN_LOG},
	{"NCCL_WIN_STRIDE", KNOWN_SYMMETRIC},
};

/* Returns the row of the name; NULL: no row. */
static const struct known_row *known_find(const char *name, size_t bytes)
{
	size_t low = 0, high = ARRAY_LEN(known_rows);

	while (low < high) {
		const size_t middle = (low + high) / 2;
		const char *at = known_rows[middle].name;
		int order = strncmp(name, at, bytes);

		if (order == 0 && !at[bytes])
			return &known_rows[middle];
		if (order <= 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

const char *param_known_at(int index)
{
	return index < (int)ARRAY_LEN(known_rows) ? known_rows[index].name : NULL;
}

enum param_use param_use_of(const char *name, size_t bytes)
{
	const struct known_row *row = known_find(name, bytes);

	if (param_find(name, bytes) >= 0)
		return PARAM_READ;
	return !row ? PARAM_UNKNOWN : row->lack == KNOWN_OTHERS ? PARAM_OF_OTHERS : PARAM_NO_EFFECT;
}

static const char *known_nearest(const char *name, size_t bytes)
{
	struct word_nearest best = {.name = {NULL}};

	word_nearest_try(&best, name, bytes, param_nearest(name, bytes));
	for (size_t i = 0; i < ARRAY_LEN(known_rows); i++)
		word_nearest_try(&best, name, bytes, known_rows[i].name);
	return best.name[0];
}

/* Returns true for a variable that plugins of NCCL's read. */
static bool known_of_plugin(const char *set)
{
	static const char *const begin[] = {"NCCL_INSPECTOR_", "NCCL_PROFILE_",
					    "NCCL_PROFILER_CE_"};

	for (size_t i = 0; i < ARRAY_LEN(begin); i++)
		if (strncmp(set, begin[i], strlen(begin[i])) == 0)
			return true;
	return false;
}

/* Logs the line of a variable "NAME=VALUE" that the stack does not read. */
static void known_report(const char *set)
{
	const size_t n = strcspn(set, "=");
	const struct conf_line *line = conf_find(os_base_state()->conf, set, n);
	const struct known_row *row = known_find(set, n);
	char place[256] = "";

	if (line)
		snprintf(place, sizeof place, "%.200s:%u: ", line->path, line->number);
	if (known_of_plugin(set))
		INFO(LOG_ENV, "%s%.*s is a variable of plugins", place, (int)MIN_OF(n, (size_t)80),
		     set);
	else if (!row)
		WARN("%s%.*s is not a variable of NCCL 2.32 or of this version; nearest: %s", place,
		     (int)MIN_OF(n, (size_t)80), set, known_nearest(set, n));
	else if (row->lack == KNOWN_OTHERS)
		INFO(LOG_ENV, "%s%s is a variable of other programs", place, row->name);
	else
		WARN("%s%s has no effect: this version has %s", place, row->name,
		     known_lack[row->lack]);
}

void param_report_unread(void)
{
	const char *set;

	if (shared_quiet_exchange_u32(&os_base_state()->unread_shown, 1) != 0)
		return;
	for (int i = 0; (set = os_env_at(i)); i++)
		if (strncmp(set, "NCCL_", 5) == 0 && param_find(set, strcspn(set, "=")) < 0)
			known_report(set);
}
