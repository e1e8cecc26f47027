/* SPDX-License-Identifier: BSD-3-Clause */
/* The runtime's calls about variables of images. A symbol is the address of the host's variable. */
#include "backends/fakecuda/fakecuda.h"

/* Finds the variable's address on the current device. Reports an error. */
static cudaError_t symbol_resolve(const char *call, const void *symbol, uint64_t *address,
				  uint64_t *bytes)
{
	struct fc_ctx *ctx;
	const char *name;
	cudaError_t rc = fc_enter_ctx(call, &ctx);

	*address = *bytes = 0;
	if (rc)
		return rc;
	struct fc_image *image = fc_symbol_find(symbol, &name);
	if (!image) {
		fc_report("%s: %p is not a variable of the device", call, symbol);
		return cudaErrorInvalidSymbol;
	}
	rc = fc_image_parse(image, call);
	if (rc)
		return rc;
	fc_lock();
	rc = fc_instance_variable(image, ctx, name, address, bytes);
	fc_unlock();
	if (rc)
		fc_report("%s: variable %s: %s", call, name, cudaGetErrorName(rc));
	return rc;
}

cudaError_t cudaGetSymbolAddress(void **devPtr, const void *symbol)
{
	uint64_t address, bytes;
	cudaError_t rc = symbol_resolve("cudaGetSymbolAddress", symbol, &address, &bytes);

	if (!rc && !devPtr)
		rc = cudaErrorInvalidValue;
	if (!rc)
		*devPtr = (void *)(uintptr_t)address;
	return fc_leave(rc);
}

cudaError_t cudaGetSymbolSize(size_t *size, const void *symbol)
{
	uint64_t address, bytes;
	cudaError_t rc = symbol_resolve("cudaGetSymbolSize", symbol, &address, &bytes);

	if (!rc && !size)
		rc = cudaErrorInvalidValue;
	if (!rc)
		*size = bytes;
	return fc_leave(rc);
}

/* Finds the part of a variable that a copy moves. */
static cudaError_t symbol_part(const char *call, const void *symbol, size_t count, size_t offset,
			       void **at)
{
	uint64_t address, bytes;
	cudaError_t rc = symbol_resolve(call, symbol, &address, &bytes);

	*at = NULL;
	if (!rc && (offset > bytes || count > bytes - offset)) {
		fc_report("%s: %zu bytes at offset %zu of a variable of %llu bytes", call, count,
			  offset, (unsigned long long)bytes);
		rc = cudaErrorInvalidValue;
	}
	if (!rc)
		*at = (void *)(uintptr_t)(address + offset);
	return fc_leave(rc);
}

cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *src, size_t count, size_t offset,
			       enum cudaMemcpyKind kind)
{
	void *at;
	cudaError_t rc = symbol_part("cudaMemcpyToSymbol", symbol, count, offset, &at);

	return rc ? rc : cudaMemcpy(at, src, count, kind);
}

cudaError_t cudaMemcpyFromSymbol(void *dst, const void *symbol, size_t count, size_t offset,
				 enum cudaMemcpyKind kind)
{
	void *at;
	cudaError_t rc = symbol_part("cudaMemcpyFromSymbol", symbol, count, offset, &at);

	return rc ? rc : cudaMemcpy(dst, at, count, kind);
}

cudaError_t cudaMemcpyToSymbolAsync(const void *symbol, const void *src, size_t count,
				    size_t offset, enum cudaMemcpyKind kind, cudaStream_t stream)
{
	void *at;
	cudaError_t rc = symbol_part("cudaMemcpyToSymbolAsync", symbol, count, offset, &at);

	return rc ? rc : cudaMemcpyAsync(at, src, count, kind, stream);
}

cudaError_t cudaMemcpyFromSymbolAsync(void *dst, const void *symbol, size_t count, size_t offset,
				      enum cudaMemcpyKind kind, cudaStream_t stream)
{
	void *at;
	cudaError_t rc = symbol_part("cudaMemcpyFromSymbolAsync", symbol, count, offset, &at);

	return rc ? rc : cudaMemcpyAsync(dst, at, count, kind, stream);
}
