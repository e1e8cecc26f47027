/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CUDA graphs: captures of streams, graphs of nodes, and their launches. fakecuda.h includes this
 * file last. Callers: the entry points of streams, events, copies and kernels, which add a node
 * where a stream captures, and the entry points of this folder.
 *
 *    CUgraph_st      nodes and edges, which the program or a capture adds
 *    fc_work         what a node does: a kernel, a copy, a fill, a host function, an event, a graph
 *    fc_capture      streams whose calls become nodes of a graph
 *    CUgraphExec_st  an executable graph: a private copy, in an order, on branches
 *    CUuserObject_st an object of the program that graphs keep alive
 *
 * The base has the semantics of the driver's API. The runtime's and the driver's entry points are
 * thin (capture_calls.c, graph_calls.c, node_calls.c, graph_driver.c). The functions here are
 * called under fc_lock and never wait. Errors are cudaError_t, to which a CUresult is equal.
 *
 * Execution. A launch queues the work of all its nodes. The steps of an executable graph are
 * spread over branches: a branch is a chain of steps, each of which follows the step before it
 * anyway. Branch 0 runs in the stream of the launch, each other branch in an internal stream, and
 * marks as those of events order them. The seeded scheduler, faults, the memory model, checks of
 * buffers in use, and traces therefore treat a graph as streams that fork and join.
 *
 * Results in comments are those of an H200 with CUDA 13.0 and driver 580.
 */
#ifndef BACKENDS_FAKECUDA_GRAPH_H
#define BACKENDS_FAKECUDA_GRAPH_H

#define FC_GONE_KEPT 32 /* destroyed handles that reports can name */

/* ---- what a process has of graphs ----------------------------------------------------------- */

struct fc_graphs {
	struct CUgraph_st *graphs;       /* those with a handle, child graphs included */
	struct CUgraphExec_st *execs;    /* until they are freed */
	struct CUuserObject_st *objects; /* not released */
	struct fc_capture *captures;
	uint32_t graph_last, exec_last, object_last;
	bool ending; /* the process ends: no destructor runs */
	struct fc_gone {
		const void *handle;
		uint64_t when_ns;
		uint32_t number;
		const char *what;
		char who[FC_WHO_BYTES];
	} gone[FC_GONE_KEPT];
	uint32_t gone_count;
};

struct fc_graphs *fc_graphs_get(struct fc_proc *p); /* makes it if missing */
void fc_graphs_end(struct fc_proc *p);              /* before the contexts end */
void fc_graphs_free(struct fc_proc *p);             /* after that */
/* The context ends before its process: nodes in it cannot be launched any longer. */
void fc_graphs_ctx_gone(struct fc_ctx *ctx);
/* Returns the number of graphs, executable graphs and user objects; describes the first. */
uint32_t fc_graphs_left(const struct fc_proc *p, char *first, size_t bytes);
void fc_graphs_note_gone(struct fc_proc *p, const void *handle, const char *what, uint32_t number);
/* Reports a handle that is not one: by number and task if it was destroyed. */
void fc_graphs_no_handle(struct fc_proc *p, const char *call, const char *what, const void *handle);

/* ---- cuda_graph.c: nodes and edges ---------------------------------------------------------- */

#define FC_GRAPH_MAGIC 0x47524150fa4ec0daull
#define FC_NODE_MAGIC  0x4e4f4445fa4ec0daull

struct fc_launch {
	struct fc_func *func;
	uint32_t blocks, threads;
	dim3 grid, block;
	size_t shared_bytes; /* dynamic ones */
	const void *args;    /* a node's is its own copy */
};

struct fc_fill {
	uint64_t dst;
	size_t pitch; /* bytes from row to row */
	uint32_t value, unit;
	size_t width, height; /* units in a row, rows */
};

struct fc_work {
	enum cudaGraphNodeType type;
	union {
		struct {
			struct fc_launch launch;
			void *params[1]; /* for cudaGraphKernelNodeGetParams */
		} kernel;
		struct {
			struct fc_copy copy;
			enum cudaMemcpyKind kind;
		} copy;
		struct fc_fill fill;
		struct {
			cudaHostFn_t fn;
			void *arg;
		} host;
		struct CUevent_st *event; /* NULL: its context has ended */
		struct CUgraph_st *child; /* owned */
	};
};

/* Memory that a node uses, as its library declared it by os_use. */
struct fc_node_uses {
	uint32_t count, room;
	struct fc_node_use {
		struct os_use use;
		char what[48];
	} use[];
};

struct CUgraphNode_st {
	uint64_t magic;
	struct CUgraph_st *graph;
	uint64_t serial;    /* never reused */
	uint64_t origin;    /* serial of the node of which it is a copy; 0: of none */
	uint32_t index;     /* in its graph */
	uint32_t step;      /* fc_order_make: 1 + its last step; 0: none yet */
	struct fc_ctx *ctx; /* NULL: the context has ended */
	bool captured;      /* from a stream; otherwise the program added it to the graph */
	int32_t rank;
	const char *call; /* that added it, at `caller` */
	const void *caller;
	struct fc_nodes from, to; /* edges */
	struct fc_node_uses *uses;
	struct fc_work work;
};

struct fc_kept { /* an object that a graph keeps */
	struct CUuserObject_st *object;
	uint32_t count;
};

struct CUgraph_st {
	uint64_t magic;
	struct fc_proc *proc;
	struct CUgraph_st *next; /* in fc_graphs.graphs */
	uint32_t number;         /* 0: a copy of an executable graph, without a handle */
	struct fc_nodes nodes;
	struct CUgraphNode_st *parent; /* of a child graph; NULL: not one */
	struct fc_capture *capture;    /* adds nodes; NULL: none does */
	struct fc_kept *kept;
	uint32_t kept_count;
	char who[FC_WHO_BYTES];
};

void fc_nodes_push(struct fc_nodes *list, struct CUgraphNode_st *n);
void fc_nodes_add(struct fc_nodes *list, struct CUgraphNode_st *n); /* unless it is there */
bool fc_nodes_have(const struct fc_nodes *list, const struct CUgraphNode_st *n);
void fc_nodes_remove(struct fc_nodes *list, const struct CUgraphNode_st *n);
void fc_nodes_copy(struct fc_nodes *to, const struct fc_nodes *from);
void fc_nodes_free(struct fc_nodes *list);

struct CUgraph_st *fc_graph_new(struct fc_proc *p, bool handle);
/* Copies nodes, edges and references to user objects. */
struct CUgraph_st *fc_graph_copy(const struct CUgraph_st *g, bool handle);
void fc_graph_free(struct CUgraph_st *g);
/* Return the object of a handle of this process; NULL: it is not one (reported). */
struct CUgraph_st *fc_graph_get(struct fc_proc *p, cudaGraph_t handle, const char *call);
struct CUgraphNode_st *fc_node_get(struct fc_proc *p, cudaGraphNode_t handle, const char *call);

/* The place of a new node. */
struct fc_place {
	struct CUgraph_st *graph;
	const struct fc_nodes *from;
	struct fc_ctx *ctx;
	const char *call;
	const void *caller;
};
/* Adds a node; it takes `work` over. */
struct CUgraphNode_st *fc_node_add(const struct fc_place *at, const struct fc_work *work);
void fc_edge_add(struct CUgraphNode_st *from, struct CUgraphNode_st *to);
void fc_edge_remove(struct CUgraphNode_st *from, struct CUgraphNode_st *to);
void fc_node_remove(struct CUgraphNode_st *n);
/* Returns the copy of `origin` in the graph; NULL: it has none. */
struct CUgraphNode_st *fc_node_copy_of(const struct CUgraph_st *g,
				       const struct CUgraphNode_st *origin);

/* ---- graph_work.c --------------------------------------------------------------------------- */

const char *fc_work_name(enum cudaGraphNodeType type);
/* `handle`: copies of child graphs have handles. */
void fc_work_copy(struct fc_work *to, const struct fc_work *from, bool handle);
void fc_work_free(struct fc_work *w);
/* Queues the node's work in a stream of its context. */
void fc_work_queue(const struct CUgraphNode_st *n, struct CUstream_st *s);
/* Makes work of a checked launch; it has its own copy of the arguments. */
void fc_work_launch(struct fc_work *w, const struct fc_launch *l);
/* Make work of parameters that the program passed; report an error. */
cudaError_t fc_work_kernel(struct fc_work *w, const struct cudaKernelNodeParams *p,
			   const char *call);
cudaError_t fc_work_copies(struct fc_work *w, struct fc_ctx *ctx, const struct fc_copy *c,
			   enum cudaMemcpyKind kind, const char *call);
cudaError_t fc_work_fill(struct fc_work *w, struct fc_ctx *ctx, const struct fc_fill *f,
			 const char *call);
cudaError_t fc_work_host(struct fc_work *w, cudaHostFn_t fn, void *arg, const char *call);
cudaError_t fc_work_event(struct fc_work *w, struct fc_proc *p, enum cudaGraphNodeType type,
			  cudaEvent_t event, const char *call);
cudaError_t fc_work_child(struct fc_work *w, struct fc_proc *p, cudaGraph_t child,
			  const char *call);

/* ---- graph_capture.c ------------------------------------------------------------------------ */

struct fc_capture {
	struct fc_capture *next;
	uint64_t id; /* unique in the process */
	struct CUgraph_st *graph;
	bool owned; /* the capture made the graph */
	struct CUstream_st *origin;
	uint32_t task; /* id + 1 of the task that began it */
	enum cudaStreamCaptureMode mode;
	bool invalid;
	struct fc_nodes orphans; /* last nodes of streams that were destroyed */
	char who[FC_WHO_BYTES];
};

/* Checks that work may be queued in the stream, or captured if s->capture. */
cudaError_t fc_capture_check(struct CUstream_st *s, const char *call);
/* Refuses a call that a graph cannot contain, if the stream captures. */
cudaError_t fc_capture_refuse(struct CUstream_st *s, const char *call);
/* Refuses a call that waits for a stream or queries it, if a capture forbids that. */
cudaError_t fc_capture_forbids(struct CUstream_st *s, const char *call);
/* Refuses a call that may wait for work, if a capture forbids it to this thread. fc_capture_guard
 * takes fc_lock. */
cudaError_t fc_capture_unsafe(struct fc_proc *p, const char *call);
cudaError_t fc_capture_guard(struct fc_proc *p, const char *call);
/* Refuses a call that waits for a whole context, if one of its streams captures. */
cudaError_t fc_capture_waits(struct fc_ctx *ctx, const char *call);
/* Refuses a query or a wait of an event that a capture recorded. */
cudaError_t fc_capture_event(struct CUevent_st *e, const char *call);
void fc_capture_invalidate(struct fc_capture *c);
/* Adds the next node of the stream's capture; it takes `work` over. */
void fc_capture_add(struct CUstream_st *s, const struct fc_work *work, const char *call,
		    const void *caller);
void fc_capture_record(struct CUstream_st *s, struct CUevent_st *e);
/* A stream waits for an event, and one of them captures. *waits: the wait is to be queued. */
cudaError_t fc_capture_wait(struct CUstream_st *s, struct CUevent_st *e, const char *call,
			    bool *waits);
void fc_capture_use(struct CUstream_st *s, const struct os_use *use);
void fc_capture_stream_gone(struct CUstream_st *s);
cudaError_t fc_capture_begin(struct CUstream_st *s, enum cudaStreamCaptureMode mode,
			     struct CUgraph_st *g, const struct fc_nodes *from);
cudaError_t fc_capture_end(struct CUstream_st *s, struct CUgraph_st **graph);
void fc_capture_drop(struct fc_proc *p, struct fc_capture *c);

/* ---- graph_order.c: steps and branches ------------------------------------------------------ */

#define FC_BRANCHES_MOST 128 /* as many kernels of a GPU run at a time */

struct fc_step {
	struct CUgraphNode_st *node; /* NULL: the begin or the end of a child graph */
	struct fc_ctx *ctx;
	uint32_t *from, from_count;  /* steps before it */
	uint32_t branch, place;      /* place in its branch, from 1 */
	uint32_t *waits, wait_count; /* steps in other branches for which its branch waits */
	uint32_t *reach;             /* by branch: the last place that precedes it */
	bool marked;                 /* another branch waits for it */
};

struct fc_order {
	struct fc_step *step;
	uint32_t count, room;
	uint32_t branches;
	struct fc_ctx *ctx[FC_BRANCHES_MOST];
	uint32_t last[FC_BRANCHES_MOST]; /* last step of each branch */
	struct CUgraphNode_st *cycle;    /* why fc_order_make failed */
};

/* Orders the graph's nodes and those of its child graphs. Returns false if they have a cycle. */
bool fc_order_make(struct fc_order *o, struct CUgraph_st *g);
void fc_order_free(struct fc_order *o);

/* ---- graph_exec.c --------------------------------------------------------------------------- */

#define FC_EXEC_MAGIC 0x45584543fa4ec0daull
struct CUgraphExec_st {
	uint64_t magic;
	struct fc_proc *proc;
	struct CUgraphExec_st *next;
	uint32_t number;
	unsigned long long flags;
	struct CUgraph_st *graph; /* its own copy */
	struct fc_order order;
	struct CUstream_st *branch[FC_BRANCHES_MOST]; /* internal; NULL: not used yet */
	struct fc_mark *last; /* the end of its last launch; NULL: never launched */
	uint64_t last_stream; /* serial of the stream of that launch */
	uint64_t launches;    /* number of them */
	uint32_t under_way;   /* launches that have not ended */
	bool destroyed;       /* by the program; freed when no launch is under way */
	char who[FC_WHO_BYTES];
};

struct CUgraphExec_st *fc_exec_get(struct fc_proc *p, cudaGraphExec_t handle, const char *call);
cudaError_t fc_exec_make(struct fc_ctx *ctx, cudaGraph_t graph, unsigned long long flags,
			 const char *call, struct CUgraphExec_st **exec);
cudaError_t fc_exec_launch(struct fc_ctx *ctx, cudaGraphExec_t exec, cudaStream_t stream,
			   const char *call);
cudaError_t fc_exec_upload(struct fc_ctx *ctx, cudaGraphExec_t exec, cudaStream_t stream,
			   const char *call);
cudaError_t fc_exec_update(struct fc_proc *p, cudaGraphExec_t exec, cudaGraph_t graph,
			   const char *call, cudaGraphExecUpdateResultInfo *info);
cudaError_t fc_exec_destroy(struct fc_proc *p, cudaGraphExec_t exec, const char *call);
/* Replaces the work of the node's copy in the executable graph; takes `work` over. */
cudaError_t fc_exec_set(struct fc_proc *p, cudaGraphExec_t exec, cudaGraphNode_t node,
			struct fc_work *work, const char *call);
cudaError_t fc_node_set(struct fc_proc *p, cudaGraphNode_t node, struct fc_work *work,
			const char *call);
void fc_exec_launch_over(struct CUgraphExec_st *x); /* frees it if it was destroyed */
void fc_exec_free(struct CUgraphExec_st *x);

/* ---- graph_user.c --------------------------------------------------------------------------- */

#define FC_OBJECT_MAGIC 0x4f424a45fa4ec0daull
struct CUuserObject_st {
	uint64_t magic;
	struct fc_proc *proc;
	struct CUuserObject_st *next;
	uint32_t number;
	uint64_t refs; /* of the program and of graphs */
	int32_t rank;
	void *ptr;
	cudaHostFn_t destroy;
	char who[FC_WHO_BYTES];
};

cudaError_t fc_object_make(struct fc_proc *p, void *ptr, cudaHostFn_t destroy, unsigned int refs,
			   unsigned int flags, cudaUserObject_t *object);
cudaError_t fc_object_retain(struct fc_proc *p, cudaUserObject_t object, unsigned int count,
			     const char *call);
cudaError_t fc_object_release(struct fc_proc *p, cudaUserObject_t object, unsigned int count,
			      const char *call);
/* Drops references. At the last one, a task of its own calls the destructor. */
void fc_object_drop(struct CUuserObject_st *o, uint32_t count);
cudaError_t fc_graph_keep(struct fc_proc *p, cudaGraph_t graph, cudaUserObject_t object,
			  unsigned int count, unsigned int flags, const char *call);
cudaError_t fc_graph_unkeep(struct fc_proc *p, cudaGraph_t graph, cudaUserObject_t object,
			    unsigned int count, const char *call);
/* Makes `to` keep what `from` keeps. */
void fc_kept_copy(struct CUgraph_st *to, const struct CUgraph_st *from);
void fc_kept_free(struct CUgraph_st *g);

/* ---- entry points --------------------------------------------------------------------------- */

/* Enters a call of the API, evaluates `act` under fc_lock with `proc` or `ctx` set, and returns
 * its result. */
#define fc_graph_call(call, act)                                                                   \
	({                                                                                         \
		struct fc_proc *proc;                                                              \
		cudaError_t rc_ = fc_enter(call, &proc);                                           \
		if (!rc_) {                                                                        \
			fc_lock();                                                                 \
			rc_ = (act);                                                               \
			fc_unlock();                                                               \
		}                                                                                  \
		rc_;                                                                               \
	})
/* Like fc_graph_call, for a call that releases: it does so even if a fault fails it. */
#define fc_graph_call_end(call, act)                                                               \
	({                                                                                         \
		struct fc_proc *proc;                                                              \
		cudaError_t rc_ = fc_enter(call, &proc);                                           \
		if (proc) {                                                                        \
			fc_lock();                                                                 \
			cudaError_t done_ = (act);                                                 \
			rc_ = rc_ ? rc_ : done_;                                                   \
			fc_unlock();                                                               \
		}                                                                                  \
		rc_;                                                                               \
	})
#define fc_graph_call_ctx(call, act)                                                               \
	({                                                                                         \
		struct fc_ctx *ctx;                                                                \
		cudaError_t rc_ = fc_enter_ctx(call, &ctx);                                        \
		if (!rc_) {                                                                        \
			fc_lock();                                                                 \
			rc_ = (act);                                                               \
			fc_unlock();                                                               \
		}                                                                                  \
		rc_;                                                                               \
	})

#endif
