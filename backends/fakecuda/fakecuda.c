/* SPDX-License-Identifier: BSD-3-Clause */
#include "backends/fakecuda/fakecuda.h"

#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "sim/world/program/world_guest.h"

struct fc_state fc;

/* ---- the lock ------------------------------------------------------------------------------- */

static int fc_lock_word; /* the spin lock: see fakecuda.h */

void fc_lock(void)
{
	for (int spins = 0; __atomic_exchange_n(&fc_lock_word, 1, __ATOMIC_ACQUIRE); spins++) {
		ASSERT(sim_engine_kind() == SIM_ENGINE_THREADS);
		if (spins > 64)
			sched_yield();
	}
}

void fc_unlock(void)
{
	__atomic_store_n(&fc_lock_word, 0, __ATOMIC_RELEASE);
}

/* ---- GPUs of the world ---------------------------------------------------------------------- */

/* SMs and memory by compute capability: the data-centre model of each generation. */
static const struct fc_model {
	uint32_t sm;
	int32_t sms;
	uint64_t memory_gib;
} fc_models[] = {
	{60, 56, 16},  {70, 80, 32},  {75, 40, 16},    {80, 108, 80},   {86, 84, 48},
	{89, 142, 48}, {90, 132, 80}, {100, 148, 180}, {103, 160, 288},
};

static const struct fc_model *fc_model_of(uint32_t sm)
{
	const struct fc_model *best = &fc_models[0];
	for (size_t i = 0; i < ARRAY_LEN(fc_models); i++) {
		if (fc_models[i].sm <= sm)
			best = &fc_models[i];
	}
	return best;
}

uint64_t fc_va_slice(uint32_t gpus, uint32_t processes, uint64_t memory_bytes)
{
	const uint64_t share = FC_VA_DEVICES / gpus / processes / FC_VA_CHUNK * FC_VA_CHUNK;

	return MIN_OF(memory_bytes, share);
}

static void fc_device_init(struct fc_device *dev, uint32_t index, uint32_t host,
			   const struct world_gpu *gpu)
{
	const struct fc_model *model = fc_model_of(gpu->sm);
	dev->index = index;
	dev->host = host;
	dev->dev = gpu->dev;
	dev->gpu = gpu;
	dev->base = FC_VA_BASE + world_config()->share.process * fc.share + index * fc.slice;
	dev->bytes = fc.slice;
	dev->total_bytes = model->memory_gib << 30;
	dev->sms = model->sms;
	if (world_config()->gpu_sms)
		dev->sms = MIN_OF(dev->sms, (int32_t)world_config()->gpu_sms);
	dev->sms_free = dev->sms;
	dev->h2d = (struct sim_resource){.name = "gpu h2d", .mbps = gpu->pci_mbps};
	dev->d2h = (struct sim_resource){.name = "gpu d2h", .mbps = gpu->pci_mbps};
	dev->link = (struct sim_resource){.name = "gpu link",
					  .mbps = gpu->nvlinks ? gpu->nvlink_mbps : gpu->pci_mbps};
	dev->local = (struct sim_resource){.name = "gpu memory", .mbps = FC_LOCAL_MBPS};
	dev->pending_end = &dev->pending;
}

static void fc_host_init(struct fc_device *memory, uint32_t index, uint32_t host)
{
	memory->index = index;
	memory->host = host;
	memory->base =
		FC_HOST_BASE + world_config()->share.process * fc.host_share + host * fc.host_slice;
	memory->bytes = memory->total_bytes = fc.host_slice;
}

/* ---- reports of the engine ------------------------------------------------------------------ */

/* Prints, for the hang explainer, the streams that are not empty and the kernels that wait for
 * SMs. */
static void fc_print_state(FILE *out)
{
	for (uint32_t i = 0; i < fc.device_count; i++) {
		struct fc_device *dev = &fc.device[i];
		for (struct fc_kernel *k = dev->placing; k; k = k->next_placing)
			fprintf(out,
				"gpu %u: kernel %s k%u has %u of %u blocks placed: %d of %d SMs "
				"are free\n",
				i, k->func->kernel->name, k->number, k->placed, k->blocks,
				dev->sms_free, dev->sms);
		for (struct fc_ctx *ctx = dev->ctx; ctx; ctx = ctx->next_on_device) {
			for (struct CUstream_st *s = ctx->streams; s; s = s->next) {
				if (s->head)
					fprintf(out,
						"gpu %u: stream %u of %s: %llu operations queued\n",
						i, s->number, ctx->proc->os->name,
						(unsigned long long)(s->queued - s->done));
			}
		}
	}
}

/* Called in the signal handler: reports the allocation that was accessed without the shim. Takes no
 * lock, because the program ends here. */
static bool fc_explain_crash(int signal, const void *addr)
{
	char what[384];
	uint64_t address = (uintptr_t)addr;
	(void)signal;
	if (!fc_device_at(address) && !fc_vmm_has(address))
		return false;
	const struct sim_task *task = sim_task_known();
	bool warp = task && task->kind == SIM_TASK_WARP;
	fc_alloc_describe_nearest(address, what, sizeof what);
	fprintf(stderr, "fakecuda: %s dereference of device pointer 0x%llx by %s: %s\n",
		warp ? "direct" : "host", (unsigned long long)address, task ? task->name : "?",
		what);
	const struct fc_device *dev = fc_memory_at(address);
	bool host = dev && !dev->gpu;
	fprintf(stderr, "fakecuda: %s\n",
		warp   ? "device code reaches global memory through core/device/shim/shim.h only"
		: host ? "cuMemSetAccess gave the host no access"
		       : "host code reaches device memory by cudaMemcpy only (strict device view)");
	return true;
}

/* ---- the world ------------------------------------------------------------------------------ */

/* Describes memory for reports of races; `at` is an address in the alias. */
static bool fc_describe(const void *at, char *out, size_t bytes)
{
	uint64_t address = (uintptr_t)at;

	if (!fc.ready)
		return false;
	if (fc_va_is_device(address - FC_VA_LIMIT)) {
		fc_alloc_describe_nearest(address - FC_VA_LIMIT, out, bytes);
		return true;
	}
	for (struct fc_proc *p = fc.procs; p; p = p->next) {
		const struct fc_host_range *r = fc_host_find(p, address, 1);

		if (!r)
			continue;
		snprintf(out, bytes,
			 "%llu bytes into pinned host memory #%u, %s of %llu bytes by %s (%s)",
			 (unsigned long long)(address - r->base), r->number,
			 r->registered ? "cudaHostRegister"
			 : r->managed  ? "cudaMallocManaged"
				       : "cudaHostAlloc",
			 (unsigned long long)r->bytes, r->who, p->os->name);
		return true;
	}
	return false;
}

/* Returns the number of GPUs in the world, and the memory size of the largest one. */
static uint32_t fc_count_gpus(uint64_t *memory_bytes)
{
	uint32_t count = 0;
	for (uint32_t h = 0; h < world_host_count(); h++) {
		const struct world_machine *m = world_host_machine(h);
		for (int32_t i = 0; i < m->gpu_count; i++)
			*memory_bytes =
				MAX_OF(*memory_bytes, fc_model_of(m->gpu[i].sm)->memory_gib << 30);
		count += (uint32_t)m->gpu_count;
	}
	return count;
}

/* Creates the world's GPUs. Returns false without a world, or if there is no room (reported). The
 * caller holds fc_lock. */
static bool fc_world_start(void)
{
	const struct world_config *config = world_config();
	if (!config)
		return false;
	uint64_t memory = 0;
	uint32_t count = fc_count_gpus(&memory);
	if (!count)
		return false;
	uint32_t processes = MAX_OF(config->share.processes, 1u);
	fc.slice =
		config->gpu_va_bytes ? config->gpu_va_bytes : fc_va_slice(count, processes, memory);
	fc.share = config->share.processes ? count * fc.slice : 0;
	fc.width = fc_images_any() ? 32 : config->warp_width ? (int)config->warp_width : 1;
	if (!fc_va_start(count * processes, fc.slice, config->strict_device_view))
		return false;
	fc.memory_count = count + world_host_count();
	fc.host_share = FC_HOST_LIMIT / processes / FC_VA_CHUNK * FC_VA_CHUNK;
	fc.host_slice = fc.host_share / world_host_count() / FC_VA_CHUNK * FC_VA_CHUNK;
	fc.device = calloc(fc.memory_count, sizeof *fc.device);
	ASSERT(fc.device);
	for (uint32_t h = 0; h < world_host_count(); h++) {
		const struct world_machine *m = world_host_machine(h);
		ASSERT(m->gpu_count <= FC_MAX_VISIBLE);
		for (int32_t i = 0; i < m->gpu_count; i++) {
			fc_device_init(&fc.device[fc.device_count], fc.device_count, h, &m->gpu[i]);
			fc.device_count++;
		}
		fc_host_init(&fc.device[count + h], count + h, h);
	}
	sim_on_failure(fc_print_state);
	sim_on_crash(fc_explain_crash);
	mem_on_describe(fc_describe);
	fc.ready = true;
	return true;
}

/* ---- processes and contexts ----------------------------------------------------------------- */

/* Reads CUDA_VISIBLE_DEVICES: a list of indices, which ends at the first invalid one, as in
 * CUDA. */
static void fc_proc_visible(struct fc_proc *p, struct fc_device *first, int32_t count)
{
	const char *list = os_env("CUDA_VISIBLE_DEVICES");
	if (!list) {
		for (int32_t i = 0; i < count; i++)
			p->device[p->count++] = &first[i];
		return;
	}
	uint64_t seen = 0;
	while (*list) {
		char *end;
		long v = strtol(list, &end, 10);
		if (end == list || v < 0 || v >= count || (*end && *end != ','))
			return;
		if (seen >> v & 1) { /* twice: CUDA then shows no device */
			p->count = 0;
			return;
		}
		seen |= 1ull << v;
		p->device[p->count++] = &first[v];
		list = *end ? end + 1 : end;
	}
}

static struct fc_proc *fc_proc_new(struct os_proc *os)
{
	struct fc_proc *p = calloc(1, sizeof *p);
	ASSERT(p);
	p->os = os;
	for (uint32_t i = 0; i < fc.device_count; i++) {
		if (fc.device[i].host == os->host) {
			fc_proc_visible(p, &fc.device[i], world_host_machine(os->host)->gpu_count);
			break;
		}
	}
	p->slots = p->count;
	for (int32_t i = 0; i < p->count; i++)
		p->primary[i].device = i;
	struct fc_proc **end = &fc.procs;
	while (*end)
		end = &(*end)->next;
	*end = p;
	os->slot[OS_SLOT_CUDA] = p;
	return p;
}

struct fc_ctx *fc_ctx_get(struct fc_proc *proc, int32_t slot)
{
	ASSERT(slot >= 0 && slot < proc->slots);
	struct fc_ctx *ctx = proc->ctx[slot];
	if (ctx)
		return ctx;
	ctx = calloc(1, sizeof *ctx);
	ASSERT(ctx);
	ctx->proc = proc;
	ctx->ordinal = proc->primary[slot].device;
	ctx->slot = slot;
	ctx->dev = proc->device[ctx->ordinal];
	ctx->next_on_device = ctx->dev->ctx;
	ctx->dev->ctx = ctx;
	proc->ctx[slot] = ctx;
	struct CUstream_st *legacy = fc_stream_new(ctx, cudaStreamDefault, 0);
	ASSERT(legacy && legacy->number == 0);
	return ctx;
}

struct fc_ctx *fc_ctx_of_device(struct fc_proc *proc, const struct fc_device *dev)
{
	for (int32_t i = 0; i < proc->count; i++) {
		if (proc->device[i] == dev)
			return fc_ctx_get(proc, i);
	}
	return NULL;
}

/* ---- entry points --------------------------------------------------------------------------- */

/* Creates a world at the first call of a program, if needed. All threads wait here until one has
 * done that. */
static void fc_first_call(void)
{
#ifdef DOPPEL_FAKEVERBS
	static bool begun;

	if (UNLIKELY(!__atomic_load_n(&begun, __ATOMIC_ACQUIRE) || !sim_running()))
		__atomic_store_n(&begun, world_guest_begin(), __ATOMIC_RELEASE);
#endif
}

struct fc_proc *fc_proc_get(void)
{
	struct fc_proc *proc = NULL;

	fc_first_call();
	fc_lock();
	if (fc.ready || fc_world_start()) {
		struct os_proc *os = os_proc();
		proc = os->slot[OS_SLOT_CUDA];
		if (!proc)
			proc = fc_proc_new(os);
	}
	fc_unlock();
	return proc;
}

cudaError_t fc_enter_quiet(const char *call, struct fc_proc **proc)
{
	*proc = NULL;
	fc_first_call();
	sim_point(call);
	mem_release(NULL);
	sim_charge_ns(FC_CALL_NS);
	*proc = fc_proc_get();
	if (!*proc) {
		fc_report("%s: no world with a GPU; expected a start by 'doppel exec', or "
			  "DOPPEL_MACHINE in the environment",
			  call);
		return cudaErrorNoDevice;
	}
	bool *initialized = &(*proc)->initialized;
	if (fc_call_is_runtime(call))
		__atomic_store_n(initialized, true, __ATOMIC_RELAXED);
	else if (fc_call_is_driver(call) && !__atomic_load_n(initialized, __ATOMIC_RELAXED))
		return cudaErrorInitializationError;
	return cudaSuccess;
}

cudaError_t fc_enter(const char *call, struct fc_proc **proc)
{
	cudaError_t rc = fc_enter_quiet(call, proc);
	if (rc)
		return rc;
	struct fc_proc *p = *proc;
	return (cudaError_t)fc_fault_call(call, p->count ? p->ctx[fc_current()] : NULL);
}

cudaError_t fc_enter_ctx_quiet(const char *call, struct fc_ctx **ctx)
{
	*ctx = NULL;
	struct fc_proc *proc;
	cudaError_t rc = fc_enter_quiet(call, &proc);
	if (rc)
		return rc;
	if (!proc->count)
		return cudaErrorNoDevice;
	fc_lock();
	rc = fc_context_enter(call, proc);
	if (!rc) {
		*ctx = fc_ctx_get(proc, fc_current());
		rc = (*ctx)->sticky;
	}
	fc_unlock();
	return rc;
}

cudaError_t fc_enter_ctx(const char *call, struct fc_ctx **ctx)
{
	cudaError_t rc = fc_enter_ctx_quiet(call, ctx);
	return rc ? rc : (cudaError_t)fc_fault_call(call, *ctx);
}

cudaError_t fc_leave(cudaError_t error)
{
	sim_events_drain();
	return fc_runtime_leave((CUresult)error);
}

int32_t fc_current(void)
{
	return fc_task_device();
}

void fc_who(char who[FC_WHO_BYTES])
{
	struct os_self *self = os_self();
	text_set(who, FC_WHO_BYTES, self->name ? self->name : "?");
}

/* Formats the calling task and process as the start of a log line. */
static void report_prefix(char *text, size_t bytes)
{
	struct os_self *self = os_self();

	snprintf(text, bytes, "fakecuda: %s (%s): ", self->name,
		 self->proc ? self->proc->name : "no process");
}

void fc_report(const char *fmt, ...)
{
	char text[640];
	va_list ap;

	report_prefix(text, sizeof text);
	size_t n = strlen(text);

	va_start(ap, fmt);
	vsnprintf(text + n, sizeof text - n, fmt, ap);
	va_end(ap);
	os_log_line(text);
}

static void report_misuse(bool in_turn, const char *fmt, va_list ap)
{
	char who[160];

	report_prefix(who, sizeof who);
	sim_misuse_of(who, in_turn, fmt, ap);
}

void fc_misuse(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	report_misuse(false, fmt, ap);
	va_end(ap);
}

void fc_misuse_in_turn(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	report_misuse(true, fmt, ap);
	va_end(ap);
}

_Noreturn void fc_unimplemented(const char *name)
{
	fprintf(stderr, "fakecuda: %s is not implemented\n", name);
	abort();
}

void fc_map_changed(void)
{
	__atomic_fetch_add(&fc.map_generation, 1, __ATOMIC_RELEASE);
}

uint64_t fc_map_generation(void)
{
	return __atomic_load_n(&fc.map_generation, __ATOMIC_ACQUIRE);
}

static __attribute__((constructor)) void fc_load(void)
{
	world_on_proc_exit(fc_proc_gone);
	world_on_destroy(fc_world_end);
	world_on_unmap(fc_host_unmapped);
	sim_set_resolver(fc_va_resolve, fc_va_home);
}
