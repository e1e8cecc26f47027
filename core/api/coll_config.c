/* SPDX-License-Identifier: BSD-3-Clause */
/* The entry points of collectives with options. A call without options is the plain collective. */
#include "core/api/collective.h"

API_TWIN(ncclAllReduceConfig);
API_WEAK ncclResult_t ncclAllReduceConfig(const void *sendbuff, void *recvbuff, size_t count,
					  ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
					  cudaStream_t stream, const ncclCollConfig_t *config)
{
	struct api_coll c = api_coll_of(sendbuff, recvbuff, count, datatype, op, -1, comm, stream);

	return api_coll_call_config(&c, API_ALL_REDUCE, __builtin_return_address(0), config);
}

API_TWIN(ncclAllGatherConfig);
API_WEAK ncclResult_t ncclAllGatherConfig(const void *sendbuff, void *recvbuff, size_t sendcount,
					  ncclDataType_t datatype, ncclComm_t comm,
					  cudaStream_t stream, const ncclCollConfig_t *config)
{
	struct api_coll c =
		api_coll_of(sendbuff, recvbuff, sendcount, datatype, ncclSum, -1, comm, stream);

	return api_coll_call_config(&c, API_ALL_GATHER, __builtin_return_address(0), config);
}

API_TWIN(ncclReduceScatterConfig);
API_WEAK ncclResult_t ncclReduceScatterConfig(const void *sendbuff, void *recvbuff,
					      size_t recvcount, ncclDataType_t datatype,
					      ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream,
					      const ncclCollConfig_t *config)
{
	struct api_coll c =
		api_coll_of(sendbuff, recvbuff, recvcount, datatype, op, -1, comm, stream);

	return api_coll_call_config(&c, API_REDUCE_SCATTER, __builtin_return_address(0), config);
}

API_TWIN(ncclReduceConfig);
API_WEAK ncclResult_t ncclReduceConfig(const void *sendbuff, void *recvbuff, size_t count,
				       ncclDataType_t datatype, ncclRedOp_t op, int root,
				       ncclComm_t comm, cudaStream_t stream,
				       const ncclCollConfig_t *config)
{
	struct api_coll c =
		api_coll_of(sendbuff, recvbuff, count, datatype, op, root, comm, stream);

	return api_coll_call_config(&c, API_REDUCE, __builtin_return_address(0), config);
}

API_TWIN(ncclBroadcastConfig);
API_WEAK ncclResult_t ncclBroadcastConfig(const void *sendbuff, void *recvbuff, size_t count,
					  ncclDataType_t datatype, int root, ncclComm_t comm,
					  cudaStream_t stream, const ncclCollConfig_t *config)
{
	struct api_coll c =
		api_coll_of(sendbuff, recvbuff, count, datatype, ncclSum, root, comm, stream);

	return api_coll_call_config(&c, API_BROADCAST, __builtin_return_address(0), config);
}
