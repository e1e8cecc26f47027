/* SPDX-License-Identifier: BSD-3-Clause */
/* The entry points of collectives with options. A call without options is the plain collective. */
#include "core/api/collective.h"

API_TWIN(ncclAllReduceConfig);
API_WEAK ncclResult_t ncclAllReduceConfig(const void *sendbuff, void *recvbuff, size_t count,
					  ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
					  cudaStream_t stream, const ncclCollConfig_t *config)
{
	struct api_coll c = {
		.comm = comm,
		.configured = true,
		.config = config,
		.task = {.caller = __builtin_return_address(0),
			 .send = sendbuff,
			 .recv = recvbuff,
			 .count = count,
			 .type = datatype,
			 .op = op,
			 .root = -1,
			 .stream = stream},
	};
	return api_coll_call(&c, API_ALL_REDUCE);
}

API_TWIN(ncclAllGatherConfig);
API_WEAK ncclResult_t ncclAllGatherConfig(const void *sendbuff, void *recvbuff, size_t sendcount,
					  ncclDataType_t datatype, ncclComm_t comm,
					  cudaStream_t stream, const ncclCollConfig_t *config)
{
	struct api_coll c = {
		.comm = comm,
		.configured = true,
		.config = config,
		.task = {.caller = __builtin_return_address(0),
			 .send = sendbuff,
			 .recv = recvbuff,
			 .count = sendcount,
			 .type = datatype,
			 .root = -1,
			 .stream = stream},
	};
	return api_coll_call(&c, API_ALL_GATHER);
}

API_TWIN(ncclReduceScatterConfig);
API_WEAK ncclResult_t ncclReduceScatterConfig(const void *sendbuff, void *recvbuff,
					      size_t recvcount, ncclDataType_t datatype,
					      ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream,
					      const ncclCollConfig_t *config)
{
	struct api_coll c = {
		.comm = comm,
		.configured = true,
		.config = config,
		.task = {.caller = __builtin_return_address(0),
			 .send = sendbuff,
			 .recv = recvbuff,
			 .count = recvcount,
			 .type = datatype,
			 .op = op,
			 .root = -1,
			 .stream = stream},
	};
	return api_coll_call(&c, API_REDUCE_SCATTER);
}

API_TWIN(ncclReduceConfig);
API_WEAK ncclResult_t ncclReduceConfig(const void *sendbuff, void *recvbuff, size_t count,
				       ncclDataType_t datatype, ncclRedOp_t op, int root,
				       ncclComm_t comm, cudaStream_t stream,
				       const ncclCollConfig_t *config)
{
	struct api_coll c = {
		.comm = comm,
		.configured = true,
		.config = config,
		.task = {.caller = __builtin_return_address(0),
			 .send = sendbuff,
			 .recv = recvbuff,
			 .count = count,
			 .type = datatype,
			 .op = op,
			 .root = root,
			 .stream = stream},
	};
	return api_coll_call(&c, API_REDUCE);
}

API_TWIN(ncclBroadcastConfig);
API_WEAK ncclResult_t ncclBroadcastConfig(const void *sendbuff, void *recvbuff, size_t count,
					  ncclDataType_t datatype, int root, ncclComm_t comm,
					  cudaStream_t stream, const ncclCollConfig_t *config)
{
	struct api_coll c = {
		.comm = comm,
		.configured = true,
		.config = config,
		.task = {.caller = __builtin_return_address(0),
			 .send = sendbuff,
			 .recv = recvbuff,
			 .count = count,
			 .type = datatype,
			 .root = root,
			 .stream = stream},
	};
	return api_coll_call(&c, API_BROADCAST);
}
