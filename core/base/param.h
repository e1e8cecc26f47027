/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tables of all environment variables. The tables parse the variables, print `doppel env`, and are
 * the documentation. The stack's table is here. The doubles have their own table (param_row.h) in
 * fake builds only; their variables are numbered from PARAM_COUNT on. A row is data only: id, name,
 * type, default, minimum, maximum, meaning. Each variable that the code reads has a row, and each
 * row has a reader.
 *
 * Values are read once per process, from its own environment (os_env), and never change afterwards.
 * A world with malformed values is refused when it is created. A real process logs one line for
 * each malformed value, at any log level, when it creates its first communicator; it uses the
 * default. NCCL does the same, and programs for NCCL run with values that this table does not know.
 * Types:
 *
 *	INT     decimal or 0x hexadecimal       BOOL   0 or 1 (any other number counts as 1)
 *	BYTES   an INT with an optional k, M or G (1024-based)
 *	STRING  text; default NULL prints as "unset"
 *
 * Allowed texts: param_form.c.
 *
 * All layers use these functions. The values belong to the process: base_state.h.
 */
#ifndef CORE_BASE_PARAM_H
#define CORE_BASE_PARAM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { PARAM_EXPECTED_BYTES = 256 };

/* Not set; NCCL's convention for numbers whose default depends on the machine. */
#define PARAM_UNSET (-2)

/* clang-format off */
#define PARAM_TABLE(X)                                                                             \
X(DEBUG, "NCCL_DEBUG", STRING, NULL, 0, 0, "log level: VERSION, WARN, ATTN, INFO, ABORT, TRACE")   \
X(DEBUG_SUBSYS, "NCCL_DEBUG_SUBSYS", STRING, "INIT,BOOTSTRAP,ENV", 0, 0,                           \
	"subsystems logged at INFO: INIT,COLL,P2P,SHM,NET,GRAPH,TUNING,ENV,ALLOC,"                 \
	"CALL,PROXY,NVLS,BOOTSTRAP,REG,PROFILE,RAS,DESTROY,ALLOC_HOST,ALL; ^ in front: "           \
	"all except these")                                                                        \
X(DEBUG_FILE, "NCCL_DEBUG_FILE", STRING, NULL, 0, 0,                                               \
	"file for the log instead of stderr; %h host, %p pid")                                     \
X(CONF_FILE, "NCCL_CONF_FILE", STRING, NULL, 0, 0,                                                 \
	"configuration file that is read instead of ~/.nccl.conf, before /etc/nccl.conf")          \
X(ETC_CONF, "DOPPEL_ETC_CONF", STRING, NULL, 0, 0,                                                 \
	"configuration file that is read instead of /etc/nccl.conf")                               \
X(PARAM_DUMP_ALL, "NCCL_PARAM_DUMP_ALL", STRING, "FALSE", 0, 0,                                    \
	"TRUE: ncclParamGetAllParameterKeys and ncclParamDumpAll include the variables DOPPEL_*")  \
X(HOSTID, "NCCL_HOSTID", STRING, NULL, 0, 0,                                                       \
	"identity of the host, instead of host name and boot id")                                  \
X(COMM_ID, "NCCL_COMM_ID", STRING, NULL, 0, 0,                                                     \
	"address:port of the bootstrap root, instead of one made by ncclGetUniqueId")              \
X(SOCKET_IFNAME, "NCCL_SOCKET_IFNAME", STRING, NULL, 0, 0,                                         \
	"interfaces for bootstrap and sockets: prefixes; "                                         \
	"^ in front: not these; = in front: exact names")                                          \
X(SOCKET_FAMILY, "NCCL_SOCKET_FAMILY", STRING, NULL, 0, 0,                                         \
	"address family of the interfaces: AF_INET or AF_INET6")                                   \
X(SOCKET_NTHREADS, "NCCL_SOCKET_NTHREADS", INT, "-2", -2, 16,                                      \
	"tasks that move a socket connection's data; 0 or "                                        \
	"1: the proxy's task; -2: 2 on AWS, 4 on GCP, else 0")                                     \
X(NSOCKS_PERTHREAD, "NCCL_NSOCKS_PERTHREAD", INT, "-2", -2, 64,                                    \
	"sockets of each of these tasks; -2: 8 on AWS, else 1")                                    \
X(RAS_ENABLE, "NCCL_RAS_ENABLE", BOOL, "1", 0, 1,                                                  \
	"a task of each process answers queries about the job's health (docs/ras.md)")             \
X(RAS_ADDR, "NCCL_RAS_ADDR", STRING, "localhost:28028", 0, 0,                                      \
	"host:port at which one process of each host answers clients of RAS")                      \
X(RAS_TIMEOUT_FACTOR, "NCCL_RAS_TIMEOUT_FACTOR", INT, "1", 1, 1000,                                \
	"factor of all times of RAS, for slow networks or debuggers")                              \
X(RAS_SIGNAL, "DOPPEL_RAS_SIGNAL", INT, "0", 0, 64,                                                \
	"number of a signal at which a process logs what RAS answers to DUMP; 0: none")            \
X(TIMEOUT_MS, "DOPPEL_TIMEOUT_MS", INT, "0", 0, 1ll << 40,                                         \
	"time for which an init or a launch may wait for other ranks; then the ranks get "         \
	"ncclTimeout, or ncclInvalidUsage if their calls differ; 0: any time (docs/ras.md)")       \
X(COMPARE_MS, "DOPPEL_COMPARE_MS", INT, "0", 0, 1ll << 40,                                         \
	"period in which the collectives of all ranks are compared; if they differ, all ranks "    \
	"get ncclInvalidUsage; 0: only when a time has passed (docs/ras.md)")                      \
X(TOPO_FILE, "NCCL_TOPO_FILE", STRING, NULL, 0, 0,                                                 \
	"topology XML of this host; unset: it is detected")                                        \
X(TOPO_DUMP_FILE, "NCCL_TOPO_DUMP_FILE", STRING, NULL, 0, 0,                                       \
	"file to which the host's topology XML is written")                                        \
X(TOPO_DUMP_FILE_RANK, "NCCL_TOPO_DUMP_FILE_RANK", INT, "0", 0, 1ll << 31,                         \
	"rank that writes NCCL_TOPO_DUMP_FILE")                                                    \
X(GRAPH_FILE, "NCCL_GRAPH_FILE", STRING, NULL, 0, 0,                                               \
	"graphs of this host in NCCL's XML, as `doppel topo search` prints them; no search")       \
X(GRAPH_DUMP_FILE, "NCCL_GRAPH_DUMP_FILE", STRING, NULL, 0, 0,                                     \
	"file to which the host's graphs are written, in NCCL's XML")                              \
X(GRAPH_DUMP_FILE_RANK, "NCCL_GRAPH_DUMP_FILE_RANK", INT, "0", 0, 1ll << 31,                       \
	"rank that writes NCCL_GRAPH_DUMP_FILE")                                                   \
X(TOPO_NETWORK, "DOPPEL_TOPO_NETWORK", BOOL, "0", 0, 1,                                            \
	"1: the NICs are the network's devices, not those in NCCL_TOPO_FILE; 0: the file's")       \
X(P2P_DISABLE, "NCCL_P2P_DISABLE", BOOL, "0", 0, 1, "no direct access between GPUs")               \
X(P2P_DIRECT_DISABLE, "NCCL_P2P_DIRECT_DISABLE", BOOL, "0", 0, 1,                                  \
	"messages between GPUs of one process go through staging "                                 \
	"buffers: for buffers that peer access does not cover")                                    \
X(LOCAL_REGISTER, "NCCL_LOCAL_REGISTER", BOOL, "1", 0, 1,                                          \
	"0: ncclCommRegister has no effect")                                                       \
X(WIN_ENABLE, "NCCL_WIN_ENABLE", BOOL, "1", 0, 1,                                                  \
	"0: ncclCommWindowRegister makes no windows")                                              \
X(CUMEM_ENABLE, "NCCL_CUMEM_ENABLE", INT, "-1", -1, 1,                                             \
	"1, -1: p2p connections use memory of cuMem, if all ranks of the host have it; 0: "        \
	"of cudaMalloc")                                                                           \
X(CUMEM_HOST_ENABLE, "NCCL_CUMEM_HOST_ENABLE", INT, "-1", -1, 1,                                   \
	"1: ranks of a host without direct access share host memory of cuMem, if their "           \
	"GPUs support it and NCCL_CUMEM_ENABLE is not 0; 0: segments of /dev/shm; -1: 0")          \
X(P2P_LEVEL, "NCCL_P2P_LEVEL", STRING, NULL, 0, 0,                                                 \
	"farthest path on which GPUs reach each other: LOC, NVL, PIX, PXB, PHB, SYS, or 0 to 5")   \
X(SHM_DISABLE, "NCCL_SHM_DISABLE", BOOL, "0", 0, 1,                                                \
	"ranks of a host without direct access use the network, not shared host memory")           \
X(NET_GDR_LEVEL, "NCCL_NET_GDR_LEVEL", STRING, NULL, 0, 0,                                         \
	"farthest path on which NICs reach GPU memory: LOC, PIX, PXB, PHB, SYS, or 0 to 5")        \
X(NET_MERGE_LEVEL, "NCCL_NET_MERGE_LEVEL", STRING, "PORT", 0, 0,                                   \
	"farthest path between HCAs that form one NIC: PORT, PIX, PXB, PHB, SYS; LOC: none")       \
X(NET_MERGE_POLICY, "NCCL_NET_MERGE_POLICY", STRING, "ALL", 0, 0,                                  \
	"RAIL: of the HCAs that are near enough, only those of one rail are merged; ALL: any")     \
X(NET_FORCE_MERGE, "NCCL_NET_FORCE_MERGE", STRING, NULL, 0, 0,                                     \
	"HCAs that are merged into one NIC at any distance: mlx5_0,mlx5_1;mlx5_2,mlx5_3")          \
X(IB_MERGE_NICS, "NCCL_IB_MERGE_NICS", BOOL, "1", 0, 1, "0: no HCAs are merged")                   \
X(NET_SHARED_COMMS, "NCCL_NET_SHARED_COMMS", BOOL, "1", 0, 1,                                      \
	"channels of a pair of ranks share a network connection, if the network has tags")         \
X(DMABUF_ENABLE, "NCCL_DMABUF_ENABLE", BOOL, "1", 0, 1,                                            \
	"1: GPU memory is registered as a dma-buf, if driver, kernel "                             \
	"and HCA support it; 0: only by the peer-memory module")                                   \
X(GDR_FLUSH_DISABLE, "NCCL_GDR_FLUSH_DISABLE", BOOL, "0", 0, 1,                                    \
	"do not flush GPU memory after a NIC wrote to it")                                         \
X(CROSS_NIC, "NCCL_CROSS_NIC", INT, "2", 0, 2,                                                     \
	"a ring may leave a host by another NIC than it entered: 0 no, 1 yes, 2 if faster")        \
X(PXN_DISABLE, "NCCL_PXN_DISABLE", BOOL, "0", 0, 1,                                                \
	"no path to a NIC through the GPU that it belongs to")                                     \
X(P2P_PXN_LEVEL, "NCCL_P2P_PXN_LEVEL", INT, "2", 0, 2,                                             \
	"messages that leave through the GPU of the receiver's rail: "                             \
	"0 none, 1 if the sender is not near the rail's NIC, 2 all")                               \
X(PXN_CONNECTIONS, "DOPPEL_PXN_CONNECTIONS", INT, "64", 0, 128,                                    \
	"connections for which a GPU reserves memory, for "                                        \
	"messages that other ranks of its host send through it")                                   \
X(NVB_DISABLE, "NCCL_NVB_DISABLE", BOOL, "0", 0, 1,                                                \
	"no path between GPUs through a third one")                                                \
X(COLLNET_ENABLE, "NCCL_COLLNET_ENABLE", BOOL, "0", 0, 1,                                          \
	"1: CollNet, reductions in a network whose plugin NCCL_NET_PLUGIN names; like the "        \
	"config's collnetEnable")                                                                  \
X(COLLNET_NODE_THRESHOLD, "NCCL_COLLNET_NODE_THRESHOLD", INT, "2", 0, 1 << 20,                     \
	"fewest hosts of a communicator that uses CollNet")                                        \
X(TOPO_COMPAT, "NCCL_TOPO_COMPAT", STRING, NULL, 0, 0,                                             \
	"2.28: paths and speeds as in NCCL 2.28; unset or 2.30: as in 2.30")                       \
X(MIN_NCHANNELS, "NCCL_MIN_NCHANNELS", INT, "-2", -2, 1 << 20, "fewest channels; -2: by search")   \
X(MAX_NCHANNELS, "NCCL_MAX_NCHANNELS", INT, "-2", -2, 1 << 20, "most channels; -2: by search")     \
X(MIN_CTAS, "NCCL_MIN_CTAS", INT, "-2", -2, 1 << 20, "fewest channels, like the config's minCTAs") \
X(MAX_CTAS, "NCCL_MAX_CTAS", INT, "-2", -2, 1 << 20, "most channels, like the config's maxCTAs")   \
X(CGA_CLUSTER_SIZE, "NCCL_CGA_CLUSTER_SIZE", INT, "-2", -2, 8,                                     \
	"blocks of a launch that the GPU places together, like the config's "                      \
	"cgaClusterSize; 0 or 1: each alone; -2: 4 from compute capability 9.0 on")                \
X(COMM_BLOCKING, "NCCL_COMM_BLOCKING", INT, "-1", -1, 1,                                           \
	"1: init waits; 0: it returns immediately; -1: the program's config decides")              \
X(ALGO, "NCCL_ALGO", STRING, NULL, 0, 0,                                                           \
	"algorithms that may be used, such as ring,oneshot or ^tree or ring;allreduce:twoshot")    \
X(PROTO, "NCCL_PROTO", STRING, NULL, 0, 0,                                                         \
	"protocols that may be used, in the form of NCCL_ALGO: LL,LL128,Simple")                   \
X(PAT_ENABLE, "NCCL_PAT_ENABLE", INT, "2", 0, 2,                                                   \
	"algorithm PAT: 0: not used; 2: if every host has one rank; 1: anywhere")                  \
X(TUNER_PLUGIN, "NCCL_TUNER_PLUGIN", STRING, NULL, 0, 0,                                           \
	"tuner plugin of version 2 to 6: a file, NAME for libnccl-tuner-NAME.so, STATIC_PLUGIN, "  \
	"or none; unset: libnccl-tuner.so, or the library of the net plugin, if it has one")       \
X(PROFILER_PLUGIN, "NCCL_PROFILER_PLUGIN", STRING, NULL, 0, 0,                                     \
	"profiler plugin of version 1 to 7: a file, NAME for libnccl-profiler-NAME.so, "           \
	"STATIC_PLUGIN, or none; unset: libnccl-profiler.so, or the library of the net plugin, "   \
	"if it has one")                                                                           \
X(NET_PLUGIN, "NCCL_NET_PLUGIN", STRING, NULL, 0, 0,                                               \
	"net plugins of versions 8 to 12, the first with a device is used: files, NAME for "       \
	"libnccl-net-NAME.so, or none; unset: libnccl-net.so if there is one")                     \
X(NET_PLUGIN_REF_COUNT, "NCCL_NET_PLUGIN_REF_COUNT", INT, "0", 0, 1 << 20,                         \
	"not 0: the library of a net plugin stays loaded after its last communicator")             \
X(NET, "NCCL_NET", STRING, NULL, 0, 0,                                                             \
	"network, like the config's netName: IB, Socket or the name of a net plugin's; "           \
	"unset: the plugin's if there is one, IB if all ranks have an HCA")                        \
X(NTHREADS, "NCCL_NTHREADS", INT, "-2", -2, 1024, "threads per block; -2: 512, or fewer")          \
X(BUFFSIZE, "NCCL_BUFFSIZE", BYTES, "4194304", 1, 1ll << 40,                                       \
	"bytes of a connection's buffer of protocol SIMPLE")                                       \
X(LL_BUFFSIZE, "NCCL_LL_BUFFSIZE", BYTES, "524288", 1, 1ll << 40,                                  \
	"bytes of a connection's buffer of protocol LL")                                           \
X(LL128_BUFFSIZE, "NCCL_LL128_BUFFSIZE", BYTES, "4915200", 1, 1ll << 40,                           \
	"bytes of a connection's buffer of protocol LL128")                                        \
X(MAX_P2P_NCHANNELS, "NCCL_MAX_P2P_NCHANNELS", INT, "32", 1, 64,                                   \
	"most channels of the messages between two ranks; over NVLink all channels "               \
	"are used, over the network NCCL_NCHANNELS_PER_NET_PEER, elsewhere 2")                     \
X(NCHANNELS_PER_NET_PEER, "NCCL_NCHANNELS_PER_NET_PEER", INT, "-2", -2, 1 << 20,                   \
	"channels of the messages between two ranks over the network, like the "                   \
	"config's nChannelsPerNetPeer; -2: 2; at most 8; the same on all ranks")                   \
X(P2P_LL_THRESHOLD, "NCCL_P2P_LL_THRESHOLD", BYTES, "-2", -2, 1ll << 40,                           \
	"most bytes of a channel's part of a message that uses LL, if NCCL_PROTO allows LL; -2: "  \
	"16384, or 32768 between two ranks over NVLink in two processes; the same on all ranks")   \
X(P2P_LL128_THRESHOLD, "DOPPEL_P2P_LL128_THRESHOLD", BYTES, "0", 0, 1ll << 40,                     \
	"the same for LL128, for parts that are too long for LL; 0: messages do not use LL128")    \
X(WORK_FIFO_BYTES, "NCCL_WORK_FIFO_BYTES", BYTES, "1048576", 4096, 1ll << 30,                      \
	"bytes of a communicator's FIFO of works; a launch takes up to half of it")                \
X(WORK_ARGS_BYTES, "NCCL_WORK_ARGS_BYTES", BYTES, "3072", 0, 1ll << 40,                            \
	"bytes of works that a kernel's arguments hold, at most 3072; more works use the FIFO")    \
X(GRAPH_MIXING_SUPPORT, "NCCL_GRAPH_MIXING_SUPPORT", BOOL, "1", 0, 1,                              \
	"0: the program never overlaps a communicator's CUDA graphs with its other launches")      \
X(FIRST_STEP, "DOPPEL_FIRST_STEP", INT, "0", 0, 1ll << 62,                                         \
	"first step of connections, the same on all ranks: a "                                     \
	"large one soon reaches the wrap of a narrow counter")                                     \
X(RESULT_BYTES, "DOPPEL_RESULT_BYTES", BYTES, "262144", 1, 1ll << 31,                              \
	"least bytes of a channel's results that a ring writes directly into the "                 \
	"outputs; the same on all ranks")                                                          \
X(CHECK_POINTERS, "NCCL_CHECK_POINTERS", BOOL, "0", 0, 1,                                          \
	"check that buffers are memory of the communicator's GPU")                                 \
X(IB_DISABLE, "NCCL_IB_DISABLE", BOOL, "0", 0, 1, "do not use HCAs")                               \
X(IB_HCA, "NCCL_IB_HCA", STRING, NULL, 0, 0,                                                       \
	"HCAs to use: name[:port] prefixes; ^ in front: not these; = in front: exact names")       \
X(IB_GID_INDEX, "NCCL_IB_GID_INDEX", INT, "-1", -1, 255, "GID index; -1: by version/family/range") \
X(IB_ROCE_VERSION_NUM, "NCCL_IB_ROCE_VERSION_NUM", INT, "2", 1, 2, "RoCE version of the GID")      \
X(IB_ADDR_FAMILY, "NCCL_IB_ADDR_FAMILY", STRING, "AF_INET", 0, 0,                                  \
	"address family of the GID: AF_INET or AF_INET6")                                          \
X(IB_ADDR_RANGE, "NCCL_IB_ADDR_RANGE", STRING, NULL, 0, 0,                                         \
	"subnet of the GID, such as 10.0.0.0/8 or fd00::/16")                                      \
X(IB_QPS_PER_CONNECTION, "NCCL_IB_QPS_PER_CONNECTION", INT, "1", 1, 128,                           \
	"queue pairs of a connection, the same on all ranks")                                      \
X(IB_SPLIT_DATA_ON_QPS, "NCCL_IB_SPLIT_DATA_ON_QPS", BOOL, "0", 0, 1,                              \
	"split each message over its connection's queue pairs; 0: messages rotate over them")      \
X(IB_ADAPTIVE_ROUTING, "NCCL_IB_ADAPTIVE_ROUTING", INT, "-2", -2, 1,                               \
	"1: adaptive routing: long data and its immediate are two writes; -2: on InfiniBand")      \
X(IB_AR_THRESHOLD, "NCCL_IB_AR_THRESHOLD", INT, "8192", 0, 1ll << 40,                              \
	"bytes of a write above which its immediate is another write, with adaptive routing")      \
X(IB_PCI_RELAXED_ORDERING, "NCCL_IB_PCI_RELAXED_ORDERING", INT, "2", 0, 2,                         \
	"an HCA's writes of data may overtake each other on PCIe: 0 no, 1 yes, 2 if supported")    \
X(IB_TIMEOUT, "NCCL_IB_TIMEOUT", INT, "20", 0, 31, "local ACK timeout, 4.096 us << value")         \
X(IB_RETRY_CNT, "NCCL_IB_RETRY_CNT", INT, "7", 0, 7,                                               \
	"transport retries before a QP fails; soft-RoCE: 6 unless set: 7 means without end")       \
X(IB_PKEY, "NCCL_IB_PKEY", INT, "0", 0, 65535,                                                     \
	"index of the queue pairs' partition key in the table of the HCA's port")                  \
X(IB_TC, "NCCL_IB_TC", INT, "0", 0, 255, "traffic class")                                          \
X(IB_SL, "NCCL_IB_SL", INT, "0", 0, 15, "service level")                                           \
X(IB_FAILOVER, "NCCL_IB_RESILIENCY_PORT_FAILOVER", BOOL, "0", 0, 1,                                \
	"a rail of a merged NIC that fails moves its traffic to the others")                       \
X(IB_RECOVERY, "NCCL_IB_RESILIENCY_PORT_RECOVERY", BOOL, "0", 0, 1,                                \
	"with failover: a rail that works again is used again")                                    \
X(IB_RECOVERY_DELAY, "NCCL_IB_RESILIENCY_PORT_RECOVERY_START_DELAY", INT, "200", 0, 3600000,       \
	"milliseconds from a rail's failure to the first attempt to use it again")                 \
X(IB_RECOVERY_INTERVAL, "NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_INTERVAL", INT, "500",   \
	1, 3600000, "milliseconds between attempts, and between batches of test messages")         \
X(IB_RECOVERY_BATCH, "NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_SIZE", INT, "5", 1, 10,     \
	"test messages of a batch, on each queue pair of the rail")                                \
X(IB_RECOVERY_SEQUENCE, "NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_SEQUENCE_SIZE", INT, "5", 1,   \
	1000, "test messages that must be acknowledged before a rail is used again")               \
X(IB_RECOVERY_TIMEOUT, "NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_TIMEOUT", INT, "4000", 1,       \
	3600000, "milliseconds that a batch of test messages may take")                            \
X(IB_RECOVERY_ACK_TIMEOUT, "NCCL_IB_RESILIENCY_PORT_RECOVERY_ACK_TIMEOUT", INT, "5000", 1,         \
	3600000, "milliseconds that the other end may take to answer an attempt")                  \
X(IB_RECOVERY_ATTEMPTS, "NCCL_IB_RESILIENCY_PORT_RECOVERY_ATTEMPTS_MAX", INT, "5", 1, 1000000,     \
	"attempts to use a rail again")
/* clang-format on */

/* Number of a row in the enum of its table. */
#define PARAM_ENUM(id, ...) PARAM_##id,

enum param { PARAM_TABLE(PARAM_ENUM) PARAM_COUNT };

/* `p` is an enum param, or the number of a variable of the doubles. */
int64_t param_i64(int p);
bool param_bool(int p);
const char *param_str(int p); /* NULL: not set and no default */
bool param_is_set(int p);     /* the variable is in the environment, with any value */
const char *param_name(int p);

/* Number of variables of all tables; their numbers begin at 0. */
int param_count(void);
/* Returns the variable of that name, which may be an older one; -1 if no table has it. */
int param_find(const char *name, size_t bytes);
/* Returns the name in the tables that is nearest to an unknown name. */
const char *param_nearest(const char *name, size_t bytes);
/* Users of a name NCCL_...: the stack; none, though NCCL 2.32 or 2.28 has it; other programs; none
 * that is known. */
enum param_use { PARAM_READ, PARAM_NO_EFFECT, PARAM_OF_OTHERS, PARAM_UNKNOWN };
enum param_use param_use_of(const char *name, size_t bytes);
/* Returns the known name with that index that the stack does not read; NULL after the last. They
 * are sorted by byte. */
const char *param_known_at(int index);
/* True if `p` can have that value. Otherwise writes the allowed values to `expected`. An empty
 * value counts as unset. */
bool param_allows(int p, const char *value, char *expected, size_t bytes);
/* Writes the allowed values of `p`. */
void param_expected(int p, char *out, size_t bytes);
/* Logs each malformed value of this process once, on stderr, at any log level. */
void param_report_malformed(void);
/* Logs one line for each NCCL_ variable that is set and has no row, once per process. The line is a
 * WARN if the variable is one of NCCL's without effect here, or an unknown one. It is an INFO line
 * if other programs read it. */
void param_report_unread(void);
/* Logs one INFO line of subsystem ENV for each variable that is set, once per process. */
void param_report_set(void);
/* True at the first call in this process. A reader that cannot use the value then logs its line. */
bool param_warns(int p);

/* Prints the tables: name, type, default, meaning, and the value if it is set. */
void param_print(FILE *out);

#endif
